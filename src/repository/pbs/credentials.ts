/**
 * What proves to the server who asks: an API token, or a ticket that a password bought.
 *
 *   Authorization: PBSAPIToken=user@realm!token:secret
 *   Cookie: PBSAuthCookie=ticket            or __Host-PBSAuthCookie, where the server sent that cookie
 *
 * Source: PBS `pbs-client/src/http_client.rs`.
 */
import { PbsfsError } from '../../errors.ts';

export type AuthHeaders = Readonly<Record<string, string>>;

export interface Credentials extends Disposable {
  readonly authId: string;
  /** @throws PbsfsError `access-denied`, `unreachable`, … where a login is needed and fails. */
  headers(): Promise<AuthHeaders>;
  /**
   * Other headers in the place of `refused` ones; undefined where there are none.
   * @throws PbsfsError as `headers`
   */
  replace(refused: AuthHeaders): Promise<AuthHeaders | undefined>;
  /** What to do when the server refuses them for good. */
  readonly hint: string;
}

/** A secret as users copy it from PVE's or PBS's pages: with the token id before it. */
const pastedWithId = /^(?:PBSAPIToken[= ])?[^\s:/=]+@[^\s:/=]+![^\s:/=]+[=:]/;

/** Login with an API token: nothing to buy, nothing to renew. */
export function tokenCredentials(authId: string, secret: string): Credentials {
  const headers = { authorization: `PBSAPIToken=${authId}:${encodeURIComponent(secret)}` };
  return {
    authId,
    headers: async () => headers,
    replace: async () => undefined,
    hint: pastedWithId.test(secret)
      ? 'the secret is given as TOKENID=SECRET: leave out everything up to and including the = or :'
      : `check the secret of the token, and that ${authId} is enabled and has not expired`,
    [Symbol.dispose]: () => {},
  };
}

export interface Ticket {
  readonly ticket: string;
  readonly cookieName: string;
  /** Milliseconds since the epoch. */
  readonly issuedAt: number;
}

/** Buys a ticket with a password, or with a ticket that is still good. */
type Login = (password: string) => Promise<Ticket>;

export interface TicketOptions {
  readonly authId: string;
  readonly login: Login;
  /** A ticket from an earlier login, still good. */
  readonly stored?: Ticket | undefined;
  /** Asked at most once; its answer is kept for later logins. */
  readonly password: () => Promise<string>;
}

/** PBS's tickets live two hours; the rest is for clocks that differ. */
const ticketLifetime = (2 * 3600 - 300) * 1000;
/** PBS's client renews that often. */
const renewalInterval = 15 * 60 * 1000;

/** Login with a password: bought when first needed, renewed long before it ends. */
export class TicketCredentials implements Credentials {
  readonly authId: string;
  readonly hint: string;
  readonly #options: TicketOptions;
  readonly #timer: NodeJS.Timeout;
  #current: Ticket | undefined;
  #password: Promise<string> | undefined;
  #pending: Promise<Ticket> | undefined;

  constructor(options: TicketOptions) {
    this.authId = options.authId;
    this.hint = `check the password of ${options.authId}; tokens are written user@realm!token`;
    this.#options = options;
    this.#current = options.stored;
    this.#timer = setInterval(() => void this.#renew(), renewalInterval).unref();
  }

  async headers(): Promise<AuthHeaders> {
    const { ticket, cookieName } = await this.#valid();
    return { cookie: `${cookieName}=${encodeURIComponent(ticket)}` };
  }

  async replace(refused: AuthHeaders): Promise<AuthHeaders | undefined> {
    const known = await this.headers();
    // Another request was refused earlier and has logged in anew.
    if (known['cookie'] !== refused['cookie']) return known;
    this.#current = undefined;
    return await this.headers();
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }

  async #valid(): Promise<Ticket> {
    const current = this.#current;
    if (current !== undefined && Date.now() - current.issuedAt < ticketLifetime) return current;
    this.#pending ??= this.#login().finally(() => {
      this.#pending = undefined;
    });
    return await this.#pending;
  }

  async #login(): Promise<Ticket> {
    this.#password ??= this.#options.password();
    let password: string;
    try {
      password = await this.#password;
    } catch (error) {
      this.#password = undefined;
      throw error;
    }
    this.#current = await this.#options.login(password);
    return this.#current;
  }

  /** A failure costs nothing yet: the next round, or a login with the password, comes in time. */
  async #renew(): Promise<void> {
    const current = this.#current;
    if (current === undefined) return;
    try {
      const renewed = await this.#options.login(current.ticket);
      if (this.#current === current) this.#current = renewed;
    } catch {
      // See above.
    }
  }
}

/** A second factor is wanted: its challenge stands where the ticket should. */
const partialTicket = /^PBS:!tfa!/;

/** @throws PbsfsError `access-denied` for the half of a login that asks for a second factor. */
export function requireFullTicket(ticket: string, authId: string): void {
  if (!partialTicket.test(ticket)) return;
  throw new PbsfsError('access-denied', `${authId} needs a second factor to log in`, {
    hint: 'use an API token: it needs none',
  });
}
