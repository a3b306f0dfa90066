/**
 * The other server that speaks this protocol: pmoxs3backuproxy, which keeps backups in S3 and deviates. Its
 * answers are put together from what its source does: no namespaces, no tokens, no REST downloads, no list of
 * allowed chunks, and 200 with nothing for whatever it does not know or may not answer.
 */
import type { Answer } from './faults.ts';
import type { ApiContext, RestRequest } from './rest-api.ts';

const nothing: Answer = { status: 200, body: Buffer.alloc(0) };

function data(value: unknown): Answer {
  return {
    status: 200,
    type: 'application/json',
    body: Buffer.from(JSON.stringify({ data: value })),
  };
}

/** @param rawPath as it was sent, with its query. */
export function answerS3Proxy(context: ApiContext, request: RestRequest, rawPath: string): Answer {
  if (request.path === '/api2/json/access/ticket') return login(context, request);
  try {
    context.access.authenticate(request.headers);
  } catch {
    return nothing;
  }
  if (rawPath === '/api2/json/admin/datastore') return data([{ store: context.store }]);
  const call = rawPath.split('/')[6] ?? '';
  if (call.startsWith('namespace')) return data([{ ns: 'Root' }]);
  if (call === 'status') return data({ avail: 10_000_000, total: 10_010_000, used: 10_000 });
  if (call.startsWith('groups?')) return data(groups(context));
  if (call.startsWith('snapshots')) return data(snapshots(context, request.query));
  return nothing;
}

function login(context: ApiContext, request: RestRequest): Answer {
  const { username = '', password = '' } = JSON.parse(request.body) as Record<string, string>;
  const ticket = context.access.login(username, password);
  if (ticket === undefined) return { status: 403, body: Buffer.from('Access Denied.') };
  return data({ CSRFPreventionToken: 'unused', ticket, username });
}

function groups(context: ApiContext): unknown {
  return context.reader.groups('').map(({ type, id }) => ({
    'backup-type': type,
    'backup-id': id,
    'backup-count': 1,
    'last-backup': 1,
    files: null,
    size: 200,
  }));
}

/** Those of the group that is asked for, or all where it has none. */
function snapshots(context: ApiContext, query: URLSearchParams): unknown {
  const all = context.reader.groups('').flatMap((group) =>
    context.reader.times('', group.type, group.id).map((time) => {
      const { files, size } = context.reader.snapshot('', group, time);
      return {
        'backup-type': group.type,
        'backup-id': group.id,
        'backup-time': time,
        protected: false,
        Datastore: context.store,
        files: files.map((file) => ({ ...file, 'crypt-mode': 'none' })),
        size,
      };
    }),
  );
  const found = all.filter(
    (snapshot) =>
      snapshot['backup-type'] === query.get('backup-type') &&
      snapshot['backup-id'] === query.get('backup-id'),
  );
  return found.length > 0 ? found : all;
}
