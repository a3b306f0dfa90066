/** What a connection to a Proxmox Backup Server needs to know, from wherever it comes. */
import type { Namespace } from '../../formats/snapshot-path.ts';
import type { Logger } from '../../log.ts';
import type { Ticket } from './credentials.ts';
import type { Deadlines } from './deadlines.ts';
import type { ProxySettings } from './proxy.ts';
import type { PbsLocation } from './repository-string.ts';
import type { ConfirmFingerprint } from './tls-connector.ts';

export interface PbsSettings extends PbsLocation {
  /** As the user wrote the repository; default: the location in PBS's form. */
  readonly name?: string | undefined;
  /** Password or token secret, undefined where none is configured. Asked at most once. */
  readonly secret: () => Promise<string | undefined>;
  /** A ticket that is still good, tried where no password is configured. */
  readonly storedTicket?: (() => Promise<Ticket | undefined>) | undefined;
  /** Asks the user for the password, where there is neither. */
  readonly promptPassword?: ((authId: string) => Promise<string>) | undefined;
  /** SHA-256 of the server's certificate: 64 hex digits, with or without colons. */
  readonly fingerprint?: string | undefined;
  readonly confirmFingerprint?: ConfirmFingerprint | undefined;
  /** CA certificates, PEM, besides those of Node and of the system. */
  readonly ca?: readonly string[] | undefined;
  readonly proxy?: ProxySettings | undefined;
  /** Where the user starts: rights are checked there first. */
  readonly namespace?: Namespace | undefined;
  readonly logger?: Logger | undefined;
  readonly deadlines?: Partial<Deadlines> | undefined;
  /** Reader sessions open at once. */
  readonly maxSessions?: number | undefined;
}
