/** Users, tokens, tickets and rights of the test server. */
import { randomBytes } from 'node:crypto';

export const allRights = [
  'Datastore.Audit',
  'Datastore.Read',
  'Datastore.Backup',
  'Datastore.Verify',
] as const;

export interface Account {
  /** `user@realm` or `user@realm!token`. */
  readonly authId: string;
  /** Password or token secret. */
  readonly secret: string;
  /** ACL path to privileges; the entry nearest to a path counts. */
  readonly acl: Readonly<Record<string, readonly string[]>>;
}

interface Ticket {
  readonly authId: string;
  readonly expires: number;
}

/** A failed login: the real server answers it with 401 after three seconds. */
export class Unauthenticated extends Error {}

export interface AccessOptions {
  readonly accounts: readonly Account[];
  /** Only `__Host-PBSAuthCookie` counts, and the ticket comes in `Set-Cookie`, as PBS 4 can do. */
  readonly hostCookie: boolean;
}

export class Access {
  readonly #accounts = new Map<string, Account>();
  readonly #tickets = new Map<string, Ticket>();
  readonly hostCookie: boolean;
  /** Seconds. */
  ticketLifetime = 7200;
  /** Added to the clock, in seconds: tickets age without waiting. */
  clockOffset = 0;

  constructor(options: AccessOptions) {
    for (const account of options.accounts) this.#accounts.set(account.authId, account);
    this.hostCookie = options.hostCookie;
  }

  #now(): number {
    return Date.now() / 1000 + this.clockOffset;
  }

  /** A new ticket for a password, or for a ticket that is still good. */
  login(username: string, password: string): string | undefined {
    const known = this.#tickets.get(password);
    const renewed = known?.authId === username && known.expires > this.#now();
    const account = this.#accounts.get(username);
    if (!renewed && (account === undefined || account.secret !== password)) return undefined;
    const stamp = Math.floor(this.#now()).toString(16).toUpperCase().padStart(8, '0');
    const ticket = `PBS:${username}:${stamp}::${randomBytes(66).toString('base64').slice(0, 86)}`;
    this.#tickets.set(ticket, { authId: username, expires: this.#now() + this.ticketLifetime });
    return ticket;
  }

  /** Who sends these headers. @throws Unauthenticated */
  authenticate(headers: Readonly<Record<string, string | string[] | undefined>>): Account {
    const cookie = /(?:^|;\s*)(?:__Host-)?PBSAuthCookie=([^;]*)/.exec(
      String(headers['cookie'] ?? ''),
    );
    if (cookie !== null) return this.#byCookie(cookie[0], cookie[1] ?? '');
    const token = /^PBSAPIToken[= ](.*)$/.exec(String(headers['authorization'] ?? ''));
    if (token === null) throw new Unauthenticated('no authentication credentials provided.');
    return this.#byToken(decodeURIComponent(token[1] ?? ''));
  }

  #byCookie(cookie: string, value: string): Account {
    if (cookie.includes('__Host-') !== this.hostCookie) {
      throw new Unauthenticated('no authentication credentials provided.');
    }
    const ticket = this.#tickets.get(decodeURIComponent(value));
    if (ticket === undefined || ticket.expires <= this.#now()) {
      throw new Unauthenticated('invalid ticket - expired');
    }
    return this.#account(ticket.authId);
  }

  #byToken(text: string): Account {
    const colon = text.indexOf(':');
    const authId = text.slice(0, colon);
    if (!/^[^\s:/]+@[A-Za-z0-9_][\w.-]*![A-Za-z0-9_][\w.-]*$/.test(authId)) {
      throw new Unauthenticated('not a valid user id');
    }
    const account = this.#account(authId);
    if (account.secret !== text.slice(colon + 1)) throw new Unauthenticated('invalid credentials');
    return account;
  }

  #account(authId: string): Account {
    const account = this.#accounts.get(authId);
    if (account === undefined) {
      throw new Unauthenticated('user account or token disabled or expired.');
    }
    return account;
  }
}

/** `/datastore/store1/ns1/deep`. */
export function aclPath(store: string, ns: string): string {
  return ns === '' ? `/datastore/${store}` : `/datastore/${store}/${ns}`;
}

export function rightsOn(account: Account, path: string): readonly string[] {
  for (let at = path; at !== ''; at = at.slice(0, at.lastIndexOf('/'))) {
    const rights = account.acl[at];
    if (rights !== undefined) return rights;
  }
  return account.acl['/'] ?? [];
}

export function hasAny(account: Account, path: string, ...rights: readonly string[]): boolean {
  const granted = rightsOn(account, path);
  return rights.some((right) => granted.includes(right));
}

/** A user may use the groups of its tokens, and nobody else's. */
export function mayUse(owner: string | undefined, authId: string): boolean {
  return owner === authId || (owner?.startsWith(`${authId}!`) ?? false);
}
