/**
 * Whether a server's certificate is accepted, PBS's rule: the chain and the name are valid, or the SHA-256 of
 * the certificate itself equals a fingerprint that the user gave. Decided before a byte of a request is sent.
 *
 * Source: PBS `pbs-client/src/http_client.rs` (verify_callback).
 */
import type { TLSSocket } from 'node:tls';
import { PbsfsError } from '../../errors.ts';
import { formatFingerprint, parseFingerprint } from '../../formats/fingerprint.ts';

export interface CertificateVerdict {
  readonly accepted: boolean;
  /** SHA-256 of the certificate; undefined where the peer showed none. */
  readonly seen: Buffer | undefined;
  /** Why chain and name are not valid; undefined where they are. */
  readonly fault: string | undefined;
}

/** `CODE` of Node's verification in words. */
const faults: Readonly<Record<string, string>> = {
  DEPTH_ZERO_SELF_SIGNED_CERT: 'it is self-signed',
  SELF_SIGNED_CERT_IN_CHAIN: 'its CA is not known here',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'its CA is not known here',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'its CA is not known here',
  CERT_HAS_EXPIRED: 'it has expired',
  CERT_NOT_YET_VALID: 'it is not valid yet',
  ERR_TLS_CERT_ALTNAME_INVALID: 'it is for another name',
};

/** Judges the certificate of a socket whose handshake is over and that never resumes a session. */
export function judgeCertificate(
  socket: TLSSocket,
  expected: Buffer | undefined,
): CertificateVerdict {
  // Asked once: a second call on the same socket can come back empty.
  const seen = parseFingerprint(socket.getPeerCertificate().fingerprint256 ?? '');
  if (socket.authorized) return { accepted: seen !== undefined, seen, fault: undefined };
  const code = String(
    (socket.authorizationError as NodeJS.ErrnoException | null)?.code ?? socket.authorizationError,
  );
  return {
    accepted: seen !== undefined && expected?.equals(seen) === true,
    seen,
    fault: faults[code] ?? code,
  };
}

/** The refusal, with both fingerprints. */
export function certificateError(
  place: string,
  { seen, fault }: CertificateVerdict,
  expected: Buffer | undefined,
): PbsfsError {
  const shown = seen === undefined ? 'none' : formatFingerprint(seen);
  if (expected === undefined) {
    return new PbsfsError(
      'access-denied',
      `the certificate of ${place} is not trusted: ${fault}; its fingerprint is ${shown}`,
      {
        hint: "if that is the server's fingerprint, give it with --fingerprint or PBS_FINGERPRINT",
      },
    );
  }
  return new PbsfsError(
    'access-denied',
    `the certificate of ${place} has fingerprint ${shown}, expected is ${formatFingerprint(expected)}, and ${fault}`,
    {
      hint: 'compare with the fingerprint on the dashboard of the server; give the right one with --fingerprint or PBS_FINGERPRINT',
    },
  );
}
