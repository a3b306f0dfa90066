/**
 * The way to a chunk, one step at a time, so that `doctor` can say which one fails:
 *
 *   name → port → certificate → login → rights → chunk
 */
import { lookup } from 'node:dns/promises';
import { once } from 'node:events';
import net from 'node:net';
import { PbsfsError, toPbsfsError } from '../../errors.ts';
import { archiveKind } from '../../formats/archive-name.ts';
import { decodeIndex } from '../../formats/chunk-index.ts';
import { verifyBlobCrc } from '../../formats/data-blob.ts';
import {
  formatNamespace,
  formatSnapshot,
  type Namespace,
  type SnapshotId,
} from '../../formats/snapshot-path.ts';
import type { Repository } from '../repository.ts';
import { PbsConnection } from './connection.ts';
import { createPbsRepository } from './pbs-repository.ts';
import type { PbsSettings } from './settings.ts';
import { translateTransportError } from './transport-error.ts';

type CheckStep = 'name' | 'port' | 'certificate' | 'login' | 'rights' | 'chunk';

export interface CheckResult {
  readonly step: CheckStep;
  /** What was found, or the message of the error. */
  readonly detail: string;
  /** Why the step failed; it is the last one then. */
  readonly error: PbsfsError | undefined;
}

interface Check {
  readonly settings: PbsSettings;
  readonly connection: PbsConnection;
  readonly repository: Repository;
  readonly signal: AbortSignal | undefined;
}

/** Somebody watches: what takes longer than this is what is wrong. */
const patience = { headers: 20_000, chunk: 20_000 };

const steps: Readonly<Record<CheckStep, (check: Check) => Promise<string>>> = {
  name: checkName,
  port: checkPort,
  certificate: checkCertificate,
  login: checkLogin,
  rights: checkRights,
  chunk: checkChunk,
};

/**
 * Takes the steps in order and ends with the first that fails.
 * @throws PbsfsError `usage`, `access-denied` for settings that no server is needed to refuse
 */
export async function* checkServer(
  settings: PbsSettings,
  signal?: AbortSignal,
): AsyncGenerator<CheckResult> {
  const deadlines = { ...patience, ...settings.deadlines };
  const connection = await PbsConnection.create({ ...settings, deadlines });
  await using repository = createPbsRepository(settings, connection);
  for (const [step, run] of Object.entries(steps) as [
    CheckStep,
    (check: Check) => Promise<string>,
  ][]) {
    try {
      const detail = await run({ settings, connection, repository, signal });
      yield { step, detail, error: undefined };
    } catch (thrown) {
      const error = toPbsfsError(thrown);
      yield { step, detail: error.message, error };
      return;
    }
  }
}

/** The first peer: the proxy, where there is one. */
function firstPeer({ host, port, proxy }: PbsSettings): { host: string; port: number } {
  const peer = proxy ?? { host, port };
  return { host: peer.host.replace(/^\[(.*)\]$/, '$1'), port: peer.port };
}

async function checkName({ settings }: Check): Promise<string> {
  const { host } = firstPeer(settings);
  if (net.isIP(host) !== 0) return `${host} is an address`;
  try {
    const addresses = await lookup(host, { all: true });
    return `${host} is ${addresses.map(({ address }) => address).join(', ')}`;
  } catch (error) {
    throw translateTransportError(error, host);
  }
}

async function checkPort({ settings, connection }: Check): Promise<string> {
  const { host, port } = firstPeer(settings);
  const place = `${net.isIPv6(host) ? `[${host}]` : host}:${port}`;
  const { connect } = connection.deadlines;
  const socket = net.connect({ host, port });
  try {
    await once(socket, 'connect', { signal: AbortSignal.timeout(connect) });
    return `${place} accepts connections`;
  } catch (error) {
    if (error instanceof Error && error.name === 'AbortError') {
      const message = `no connection to ${place} within ${connect} ms`;
      throw new PbsfsError('timeout', message, { hint: 'check address, port and firewalls' });
    }
    throw translateTransportError(error, place);
  } finally {
    socket.on('error', () => {});
    socket.destroy();
  }
}

async function checkCertificate({ connection, signal }: Check): Promise<string> {
  const socket = await connection.connector.connect(signal);
  const trust = socket.authorized ? 'valid, signed by a known CA' : 'accepted by its fingerprint';
  const until = socket.getPeerCertificate().valid_to;
  socket.destroy();
  return until === undefined ? trust : `${trust}, until ${until}`;
}

async function checkLogin({ connection: { api }, signal }: Check): Promise<string> {
  await api.get('/admin/datastore', {}, signal);
  return `logged in as ${api.credentials.authId}`;
}

async function checkRights({ settings, repository, signal }: Check): Promise<string> {
  const start = settings.namespace ?? [];
  const namespaces = await repository.listNamespaces(start, signal);
  const groups = await repository.listGroups(start, signal);
  const place = start.length === 0 ? 'the root' : `namespace ${formatNamespace(start)}`;
  return `${place} shows ${count(groups.length, 'group')} and ${count(namespaces.length, 'namespace')}`;
}

function count(number: number, what: string): string {
  return number === 1 ? `1 ${what}` : `${number} ${what}s`;
}

async function checkChunk({ settings, repository, signal }: Check): Promise<string> {
  const found = await findIndex(repository, settings.namespace ?? [], signal);
  if (found === undefined) return 'no finished backup with an image or archive, so nothing to read';
  const [snapshot, filename] = found;
  await using reader = await repository.openSnapshot(snapshot, signal);
  const index = decodeIndex(filename, await reader.readFile(filename, signal));
  const started = performance.now();
  const raw = await reader.readChunk(index.digest(0), signal);
  verifyBlobCrc(raw);
  const duration = Math.round(performance.now() - started);
  return `${raw.length} bytes of ${formatSnapshot(snapshot)}/${filename} in ${duration} ms`;
}

/** Some index with a chunk, of the newest snapshot in the first namespace that has one. */
async function findIndex(
  repository: Repository,
  namespace: Namespace,
  signal: AbortSignal | undefined,
): Promise<[SnapshotId, string] | undefined> {
  const groups = await repository.listGroups(namespace, signal);
  const newestFirst = groups.toSorted((a, b) => (b.lastBackup ?? 0) - (a.lastBackup ?? 0));
  for (const { group } of newestFirst) {
    for (const { snapshot, finished } of (
      await repository.listSnapshots(group, signal)
    ).toReversed()) {
      if (!finished) continue;
      const { files } = await repository.describeSnapshot(snapshot, signal);
      const index = files.find(
        ({ filename, size }) => archiveKind(filename) !== 'blob' && size !== undefined && size > 0,
      );
      if (index !== undefined) return [snapshot, index.filename];
    }
  }
  for (const child of await repository.listNamespaces(namespace, signal)) {
    const found = await findIndex(repository, child, signal);
    if (found !== undefined) return found;
  }
  return undefined;
}
