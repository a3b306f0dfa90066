/** The parts of a connection to one server, put together from the settings. Nothing is sent yet. */
import { PbsfsError } from '../../errors.ts';
import { parseFingerprint } from '../../formats/fingerprint.ts';
import { type Credentials, TicketCredentials, tokenCredentials } from './credentials.ts';
import { type Deadlines, defaultDeadlines } from './deadlines.ts';
import { HttpClient } from './http-client.ts';
import { login } from './login.ts';
import { PbsApi } from './pbs-api.ts';
import { isTokenId } from './repository-string.ts';
import type { PbsSettings } from './settings.ts';
import { TlsConnector } from './tls-connector.ts';

export class PbsConnection implements AsyncDisposable {
  readonly deadlines: Deadlines;
  readonly connector: TlsConnector;
  readonly http: HttpClient;
  readonly api: PbsApi;

  private constructor(
    deadlines: Deadlines,
    connector: TlsConnector,
    http: HttpClient,
    api: PbsApi,
  ) {
    this.deadlines = deadlines;
    this.connector = connector;
    this.http = http;
    this.api = api;
  }

  /** @throws PbsfsError `usage` for a bad fingerprint, `access-denied` where a secret is missing */
  static async create(settings: PbsSettings): Promise<PbsConnection> {
    const { host, port, proxy, confirmFingerprint, ca } = settings;
    const deadlines = { ...defaultDeadlines, ...settings.deadlines };
    const fingerprint = expectedFingerprint(settings.fingerprint);
    const connector = new TlsConnector({
      ...{ host, port, proxy, confirmFingerprint, ca, fingerprint },
      deadline: deadlines.connect,
    });
    const http = new HttpClient(connector, deadlines);
    const api = new PbsApi(http, await createCredentials(settings, http));
    return new PbsConnection(deadlines, connector, http, api);
  }

  /** Ends everything at once, whether or not the server is still there. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.api.credentials[Symbol.dispose]();
    this.connector[Symbol.dispose]();
    await this.http[Symbol.asyncDispose]();
  }
}

function expectedFingerprint(text: string | undefined): Buffer | undefined {
  if (text === undefined || text.trim() === '') return undefined;
  const fingerprint = parseFingerprint(text.trim());
  if (fingerprint !== undefined) return fingerprint;
  throw new PbsfsError('usage', `'${text}' is no fingerprint: expected 64 hex digits`, {
    hint: "copy the fingerprint from the server's dashboard, with or without its colons",
  });
}

async function createCredentials(settings: PbsSettings, http: HttpClient): Promise<Credentials> {
  const { authId } = settings;
  const secret = await settings.secret();
  if (isTokenId(authId)) {
    if (secret !== undefined) return tokenCredentials(authId, secret);
    throw new PbsfsError('access-denied', `no secret was given for the token ${authId}`, {
      hint: 'set PBS_PASSWORD, or PBS_PASSWORD_FILE, to the secret of the token',
    });
  }
  return new TicketCredentials({
    authId,
    login: (password) => login(http, authId, password),
    stored: secret === undefined ? await settings.storedTicket?.() : undefined,
    password: async () => secret ?? (await askPassword(settings)),
  });
}

async function askPassword({ authId, promptPassword }: PbsSettings): Promise<string> {
  if (promptPassword !== undefined) return await promptPassword(authId);
  throw new PbsfsError('access-denied', `no password was given for ${authId}`, {
    hint: 'set PBS_PASSWORD, or PBS_PASSWORD_FILE; or use an API token',
  });
}
