/** The REST calls of the test server: those that a reader needs, answered as PBS 3.2.4 answers them. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  type Access,
  type Account,
  aclPath,
  hasAny,
  mayUse,
  rightsOn,
  Unauthenticated,
} from './access.ts';
import type { Answer } from './faults.ts';
import { BadRequest, checkParameters, type ParameterSchema } from './parameters.ts';
import type { StoreGroup, StoreReader } from './store-reader.ts';

class Forbidden extends Error {}

export interface RestRequest {
  readonly method: string;
  /** Duplicate slashes already collapsed. */
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: string;
}

export interface ApiContext {
  readonly store: string;
  readonly reader: StoreReader;
  readonly access: Access;
  openSessions(): number;
}

type Values = Readonly<Record<string, string>>;
type Call = (context: ApiContext, account: Account, values: Values) => Answer;

const json = 'application/json;charset=UTF-8';
const readers = ['Datastore.Audit', 'Datastore.Backup'];
const snapshotParameters = ['backup-time', 'backup-id', 'backup-type'];
const groupParameters = ['backup-id', 'backup-type'];

function data(value: unknown, chunked = false): Answer {
  return { status: 200, type: json, body: Buffer.from(JSON.stringify({ data: value })), chunked };
}

function text(status: number, message: string, type: string | undefined = json): Answer {
  return { status, ...(type === undefined ? {} : { type }), body: Buffer.from(message) };
}

function requireRights(context: ApiContext, account: Account, ns: string, rights: string[]): void {
  const path = aclPath(context.store, ns);
  if (hasAny(account, path, ...rights)) return;
  throw new Forbidden(`permission check failed - missing ${rights.join('|')} on ${path}`);
}

/** Datastore.Backup alone sees only groups of its own. */
function requireOwner(
  context: ApiContext,
  account: Account,
  values: Values,
  full: readonly string[],
): void {
  const { ns = '', 'backup-type': type = '', 'backup-id': id = '' } = values;
  if (hasAny(account, aclPath(context.store, ns), ...full)) return;
  const owner = context.reader.owner(ns, type, id);
  if (owner !== undefined && !mayUse(owner, account.authId)) {
    throw new BadRequest(`backup owner check failed (${account.authId} != ${owner})`);
  }
}

function visibleGroups(context: ApiContext, account: Account, ns: string): StoreGroup[] {
  requireRights(context, account, ns, readers);
  if (!context.reader.hasNamespace(ns)) throw new BadRequest('ENOENT: No such file or directory');
  const all = hasAny(account, aclPath(context.store, ns), 'Datastore.Audit');
  return context.reader
    .groups(ns)
    .filter((group) => all || mayUse(group.owner, account.authId))
    .filter((group) => context.reader.times(ns, group.type, group.id).length > 0);
}

const groups: Call = (context, account, { ns = '' }) =>
  data(
    visibleGroups(context, account, ns).map((group) => {
      const times = context.reader.times(ns, group.type, group.id).sort((a, b) => b - a);
      const finished = times.find((time) =>
        context.reader.storedFiles(ns, group.type, group.id, time).includes('index.json.blob'),
      );
      const notes = context.reader.groupNotes(ns, group.type, group.id);
      const shown = finished ?? times[0] ?? 0;
      return {
        'backup-count': times.length,
        'backup-id': group.id,
        'backup-type': group.type,
        ...(notes === undefined ? {} : { comment: notes.split(/(?<=\n)/)[0] }),
        files: context.reader.storedFiles(ns, group.type, group.id, shown),
        'last-backup': finished ?? 0,
        owner: group.owner,
      };
    }),
  );

const snapshots: Call = (context, account, values) => {
  const { ns = '', 'backup-type': type, 'backup-id': id } = values;
  const listed = visibleGroups(context, account, ns)
    .filter((group) => type === undefined || group.type === type)
    .filter((group) => id === undefined || group.id === id)
    .flatMap((group) =>
      context.reader
        .times(ns, group.type, group.id)
        .map((time) => context.reader.snapshot(ns, group, time)),
    );
  return data(listed, true);
};

function existingSnapshot(
  context: ApiContext,
  values: Values,
): { group: StoreGroup; time: number } {
  const { ns = '', 'backup-type': type = '', 'backup-id': id = '' } = values;
  const time = Number(values['backup-time']);
  const path = context.reader.snapshotPath(ns, type, id, time);
  if (!existsSync(path)) throw new BadRequest('ENOENT: No such file or directory');
  return { group: { type, id, owner: context.reader.owner(ns, type, id) ?? '' }, time };
}

const files: Call = (context, account, values) => {
  const { ns = '' } = values;
  const full = ['Datastore.Audit', 'Datastore.Read'];
  requireRights(context, account, ns, [...full, 'Datastore.Backup']);
  requireOwner(context, account, values, full);
  const { group, time } = existingSnapshot(context, values);
  if (context.reader.manifest(ns, group.type, group.id, time) === undefined) {
    throw new BadRequest("unable to load blob 'index.json.blob' - No such file or directory");
  }
  return data(context.reader.snapshot(ns, group, time).files);
};

const download: Call = (context, account, values) => {
  const { ns = '', 'file-name': name = '' } = values;
  requireRights(context, account, ns, ['Datastore.Read', 'Datastore.Backup']);
  requireOwner(context, account, values, ['Datastore.Read']);
  const { group, time } = existingSnapshot(context, values);
  const path = join(context.reader.snapshotPath(ns, group.type, group.id, time), name);
  if (!existsSync(path)) {
    return text(400, 'File open failed: No such file or directory (os error 2)');
  }
  return {
    status: 200,
    type: 'application/octet-stream',
    body: readFileSync(path),
    chunked: true,
  };
};

const notes: Call = (context, account, values) => {
  const { ns = '' } = values;
  requireRights(context, account, ns, ['Datastore.Audit', 'Datastore.Backup']);
  const { group, time } = existingSnapshot(context, values);
  const manifest = context.reader.manifest(ns, group.type, group.id, time);
  return data(manifest?.unprotected?.notes ?? '');
};

const groupNotes: Call = (context, account, values) => {
  const { ns = '', 'backup-type': type = '', 'backup-id': id = '' } = values;
  requireRights(context, account, ns, ['Datastore.Audit', 'Datastore.Backup']);
  return data(context.reader.groupNotes(ns, type, id) ?? '');
};

const isProtected: Call = (context, account, values) => {
  const { ns = '' } = values;
  requireRights(context, account, ns, ['Datastore.Audit', 'Datastore.Backup']);
  const { group, time } = existingSnapshot(context, values);
  return data(context.reader.snapshot(ns, group, time).protected);
};

const anyRight = ['Datastore.Modify', 'Datastore.Read', 'Datastore.Backup', 'Datastore.Audit'];

function readableNamespaces(
  context: ApiContext,
  account: Account,
  parent = '',
  depth = 7,
): string[] {
  return context.reader
    .namespaces(parent, depth)
    .filter((ns) => hasAny(account, aclPath(context.store, ns), ...anyRight));
}

const namespace: Call = (context, account, values) => {
  const parent = values['parent'] ?? '';
  if (!context.reader.hasNamespace(parent)) {
    throw new BadRequest('ENOENT: No such file or directory');
  }
  const listed = readableNamespaces(context, account, parent, Number(values['max-depth'] ?? 7));
  if (listed.length === 0) throw new Forbidden('permission check failed');
  return data(listed.map((ns) => ({ ns })));
};

const status: Call = (context, account) => {
  if (hasAny(account, aclPath(context.store, ''), 'Datastore.Audit', 'Datastore.Backup')) {
    return data({ avail: 77_727_428_608, total: 270_553_174_016, used: 20_065_865_728 });
  }
  if (readableNamespaces(context, account).length === 0) {
    throw new Forbidden('permission check failed');
  }
  return data({ avail: 0, total: 0, used: 0 });
};

const activeOperations: Call = (context) => data({ read: context.openSessions(), write: 0 });

const datastoreCalls: Readonly<Record<string, { call: Call; schema: ParameterSchema }>> = {
  'active-operations': { call: activeOperations, schema: {} },
  download: {
    call: download,
    schema: { required: [...snapshotParameters, 'file-name'], optional: ['ns'] },
  },
  files: { call: files, schema: { required: snapshotParameters, optional: ['ns'] } },
  'group-notes': { call: groupNotes, schema: { required: groupParameters, optional: ['ns'] } },
  groups: { call: groups, schema: { optional: ['ns'] } },
  namespace: { call: namespace, schema: { optional: ['parent', 'max-depth'] } },
  notes: { call: notes, schema: { required: snapshotParameters, optional: ['ns'] } },
  protected: { call: isProtected, schema: { required: snapshotParameters, optional: ['ns'] } },
  snapshots: { call: snapshots, schema: { optional: ['ns', ...groupParameters] } },
  status: { call: status, schema: { optional: ['verbose'] } },
};

function datastoreCall(context: ApiContext, account: Account, request: RestRequest): Answer {
  const [, store = '', name = ''] =
    /^\/api2\/json\/admin\/datastore\/([^/]+)\/([^/]+)$/.exec(request.path) ?? [];
  const known = datastoreCalls[name];
  if (known === undefined || request.method !== 'GET') return unknownPath(request);
  checkParameters(new URLSearchParams({ store }), { required: ['store'] });
  const values = checkParameters(request.query, known.schema);
  if (store !== context.store) throw new BadRequest(`no such datastore '${store}'`);
  return known.call(context, account, values);
}

function datastores(context: ApiContext, account: Account): Answer {
  const seen = readableNamespaces(context, account).length > 0;
  return data(seen ? [{ comment: null, store: context.store }] : []);
}

function permissions(account: Account, request: RestRequest): Answer {
  const { path } = checkParameters(request.query, { optional: ['path', 'auth-id'] });
  const paths = path === undefined ? Object.keys(account.acl) : [path];
  return data(
    Object.fromEntries(
      paths.map((at) => [at, Object.fromEntries(rightsOn(account, at).map((r) => [r, true]))]),
    ),
  );
}

function unknownPath(request: RestRequest): Answer {
  return text(404, `Path '${request.path}' not found.`);
}

function ticket(context: ApiContext, request: RestRequest): Answer {
  const fields: Values = String(request.headers['content-type']).startsWith('application/json')
    ? JSON.parse(request.body)
    : Object.fromEntries(new URLSearchParams(request.body));
  const { username = '', password = '' } = fields;
  const issued = context.access.login(username, password);
  if (issued === undefined) return text(401, 'permission check failed.');
  const csrf = { CSRFPreventionToken: '6B0DCD1B:throw-away', username };
  if (!context.access.hostCookie) return data({ ...csrf, ticket: issued });
  const cookie = `__Host-PBSAuthCookie=${encodeURIComponent(issued)}; Secure; HttpOnly; Path=/`;
  return { ...data({ ...csrf, 'ticket-info': 'PBS:stub' }), headers: { 'set-cookie': cookie } };
}

function authorised(context: ApiContext, request: RestRequest): Answer {
  const account = context.access.authenticate(request.headers);
  if (request.path === '/api2/json/version') {
    return data({
      release: '4',
      repoid: '4940514b0000000000000000000000000000000000',
      version: '3.2',
    });
  }
  if (request.path === '/api2/json/admin/datastore') return datastores(context, account);
  if (request.path === '/api2/json/access/permissions') return permissions(account, request);
  return datastoreCall(context, account, request);
}

/** The answer to one request; never throws. */
export function answerRest(context: ApiContext, request: RestRequest): Answer {
  try {
    if (request.path === '/api2/json/ping') return data({ pong: true });
    if (request.path === '/api2/json/access/ticket') return ticket(context, request);
    return authorised(context, request);
  } catch (error) {
    return errorAnswer(error);
  }
}

/** The status and text of a thrown refusal. */
export function errorAnswer(error: unknown): Answer {
  if (error instanceof Unauthenticated) {
    return text(401, `authentication failed - ${error.message}`, '');
  }
  if (error instanceof Forbidden) return text(403, error.message);
  if (error instanceof BadRequest) return text(400, error.message);
  return text(500, error instanceof Error ? (error.stack ?? error.message) : String(error));
}
