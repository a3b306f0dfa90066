/** Opens a reader session: connect, log in, upgrade; and finds out why the server refuses one. */
import type { TLSSocket } from 'node:tls';
import { PbsfsError } from '../../errors.ts';
import { formatNamespace, formatSnapshot, type SnapshotId } from '../../formats/snapshot-path.ts';
import type { PbsConnection } from './connection.ts';
import type { AuthHeaders } from './credentials.ts';
import type { Deadlines } from './deadlines.ts';
import type { Listings } from './listings.ts';
import { ReaderSession } from './reader-session.ts';
import type { TlsConnector } from './tls-connector.ts';
import { translateTransportError } from './transport-error.ts';
import { type UpgradeAnswer, upgrade } from './upgrade.ts';

interface Attempt extends UpgradeAnswer {
  /** Closed unless the status is 101. */
  readonly socket: TLSSocket;
}

/** @throws PbsfsError `stale` where the snapshot is gone; `access-denied`, `failed`, `unreachable`, `timeout` */
export async function openReaderSession(
  { connector, api, deadlines }: PbsConnection,
  listings: Listings,
  datastore: string,
  snapshot: SnapshotId,
): Promise<ReaderSession> {
  const path = readerPath(datastore, snapshot);
  const answer = await api.withLogin((headers) => attempt(connector, deadlines, path, headers));
  if (answer.status === 101) return new ReaderSession(answer.socket, connector.place, deadlines);
  // A missing snapshot, a missing right and a lock that somebody holds are all 400.
  if (answer.status === 400) await listings.stillThere(snapshot);
  const error = api.refusal(answer, 'reader session');
  throw new PbsfsError(error.code, error.message, {
    cause: error.cause,
    hint:
      error.hint ??
      `the snapshot may be locked by a running job; reading also needs ${listings.readRightOn(snapshot.namespace)}`,
    context: { snapshot: formatSnapshot(snapshot) },
  });
}

/**
 * PBS makes one slash of two, its own client sends two, and a known S3 proxy takes nothing else.
 */
function readerPath(datastore: string, snapshot: SnapshotId): string {
  const query = new URLSearchParams({
    'backup-type': snapshot.type,
    'backup-id': snapshot.id,
    'backup-time': String(snapshot.time),
    store: datastore,
  });
  if (snapshot.namespace.length > 0) query.set('ns', formatNamespace(snapshot.namespace));
  return `//api2/json/reader?${query}`;
}

async function attempt(
  connector: TlsConnector,
  deadlines: Deadlines,
  path: string,
  headers: AuthHeaders,
): Promise<Attempt> {
  const socket = await connector.connect();
  const timer = setTimeout(() => {
    const message = `${connector.place} did not answer within ${deadlines.headers} ms`;
    socket.destroy(new PbsfsError('timeout', message));
  }, deadlines.headers);
  try {
    const answer = await upgrade(socket, { path, host: connector.place, headers });
    if (answer.status !== 101) socket.destroy();
    return { ...answer, socket };
  } catch (error) {
    socket.destroy();
    throw translateTransportError(error, connector.place);
  } finally {
    clearTimeout(timer);
  }
}
