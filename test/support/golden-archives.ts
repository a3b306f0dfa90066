/** Archives of the golden datastore, opened through every layer below. */
import { type Image, type ImageOptions, openImage } from '../../src/archives/image.ts';
import { KeyRing } from '../../src/archives/key-ring.ts';
import { SnapshotArchives } from '../../src/archives/snapshot-archives.ts';
import { isBackupType, parseNamespace } from '../../src/formats/snapshot-path.ts';
import { openDatastore } from '../../src/repository/datastore/datastore.ts';
import { goldenStore } from './golden.ts';
import { goldenKeys } from './golden-keys.ts';

let keys: Promise<KeyRing> | undefined;

/** Unlocking takes seconds: it is done once. */
async function keyRing(): Promise<KeyRing> {
  keys ??= goldenKeys().then((unlocked) => new KeyRing(unlocked));
  return await keys;
}

/**
 * @param path as in `expected/pxar-index.json`: `type/id/SECONDS`, a namespace with a colon in front.
 * @param filename server name.
 */
export async function openGoldenArchive(
  path: string,
  filename: string,
  options: ImageOptions = {},
): Promise<Image> {
  const [rest = '', namespace = ''] = path.split(':').reverse();
  const [type = '', id = '', time = ''] = rest.split('/');
  if (!isBackupType(type)) throw new Error(`no backup type: ${type}`);
  const snapshot = {
    namespace: parseNamespace(namespace),
    type,
    id,
    time: Number(time),
  };
  const repository = await openDatastore(goldenStore);
  const archives = await SnapshotArchives.open(repository, snapshot, await keyRing());
  return await openImage(archives, filename, options);
}
