import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openPxar, type PxarArchive } from '../../../src/archives/pxar/pxar-archive.ts';
import { type ReadAt, readAtBuffer } from '../../../src/read-at.ts';
import { type EncodedPxar, encodePxar, type PxarNode } from '../../support/encode-pxar.ts';
import { expectError } from '../../support/expect-error.ts';
import { directory, file } from '../../support/pxar-nodes.ts';
import { listAll, walkAll } from '../../support/read-pxar.ts';
import { countingReadAt, damagedReadAt } from '../../support/watched-read-at.ts';

const sized = (name: string, size: number): PxarNode => file(name, Buffer.alloc(size, name));

/** The steps of a pass in short: `+name` enters, `-name` leaves, `!` is damage. */
async function steps(archive: PxarArchive): Promise<string> {
  const found: string[] = [];
  for await (const step of archive.walk()) {
    if (step.step === 'enter') found.push(`+${step.directory.name}`);
    else if (step.step === 'leave') found.push(`-${step.directory.name}`);
    else if (step.step === 'leaf') found.push(step.entry.name.toString());
    else found.push('!');
  }
  return found.join(' ');
}

const tree = directory(
  '',
  file('1'),
  directory('2', sized('21', 3000), directory('22', file('221'), file('222')), file('23')),
  file('3'),
);

test('a pass enters directories, meets what is in them and leaves them', async () => {
  for (const version of [1, 2] as const) {
    const archive = await openPxar(readAtBuffer(encodePxar(tree, { version }).metadata));
    assert.equal(await steps(archive), '+ 1 +2 21 +22 221 222 -22 23 -2 3 -');
  }
});

test('a pass may start at any directory, and tells the ends of those below', async () => {
  const encoded = encodePxar(tree, { version: 1 });
  const archive = await openPxar(readAtBuffer(encoded.metadata));
  const start = await archive.lookup(archive.root, Buffer.from('2'));
  assert.ok(start?.kind === 'directory');
  const ends: (number | undefined)[] = [];
  for await (const step of archive.walk(start)) {
    if (step.step === 'leave') ends.push(step.directory.end);
  }
  assert.deepEqual(ends, [encoded.places.get('2/22')?.end, encoded.places.get('2')?.end]);
});

test('a pass reads forward, and steps over content', async () => {
  const many = directory(
    '',
    ...Array.from({ length: 300 }, (_, i) => sized(`f${i}`, i % 2 === 0 ? 20 : 100_000)),
  );
  const source = countingReadAt(readAtBuffer(encodePxar(many, { version: 1 }).metadata));
  const archive = await openPxar(source);
  source.reset();
  assert.equal((await walkAll(archive)).length, 301);
  const offsets = source.ranges.map(({ offset }) => offset);
  assert.deepEqual(
    offsets,
    offsets.toSorted((a, b) => a - b),
  );
  assert.ok(source.bytes < source.size / 10, `${source.bytes} of ${source.size}`);
});

test('a pass over dense metadata reads it about once, in large reads', async () => {
  const many = directory('', ...Array.from({ length: 20_000 }, (_, i) => file(`file number ${i}`)));
  const source = countingReadAt(readAtBuffer(encodePxar(many, { version: 2 }).metadata));
  const archive = await openPxar(source);
  source.reset();
  let entries = 0;
  for await (const step of archive.walk()) if (step.step === 'leaf') entries++;
  assert.equal(entries, 20_000);
  assert.ok(source.bytes < source.size * 1.1, `${source.bytes} of ${source.size}`);
  assert.ok(source.ranges.length < 30, `${source.ranges.length} reads`);
});

/** Steps of a pass over `tree` where the bytes of `path` cannot be read; `from` and `to` cut a part of them. */
async function stepsWithDamage(
  path: string,
  cut: (place: { position: number; table?: number; end: number }) => readonly [number, number],
): Promise<string> {
  const encoded = encodePxar(tree, { version: 1 });
  const place = encoded.places.get(path);
  assert.ok(place);
  const [start, end] = cut(place);
  return await steps(await openPxar(damagedReadAt(readAtBuffer(encoded.metadata), start, end)));
}

test('behind a damaged member a pass goes on with the next', async () => {
  const entry = (place: { end: number }) => [place.end - 40, place.end] as const;
  const header = (place: { position: number }) => [place.position, place.position + 16] as const;
  assert.equal(await stepsWithDamage('1', entry), '+ ! +2 21 +22 221 222 -22 23 -2 3 -');
  assert.equal(await stepsWithDamage('2/22/221', entry), '+ 1 +2 21 +22 ! 222 -22 23 -2 3 -');
  assert.equal(await stepsWithDamage('2/22/222', header), '+ 1 +2 21 +22 221 ! -22 23 -2 3 -');
  // Of a directory nothing is known then, so it is left out with all below.
  assert.equal(await stepsWithDamage('2', header), '+ 1 ! 3 -');
});

test('behind a damaged goodbye table a pass goes on in the directory above', async () => {
  const table = (place: { table?: number; end: number }) => [place.table ?? 0, place.end] as const;
  assert.equal(await stepsWithDamage('2/22', table), '+ 1 +2 21 +22 221 222 ! -22 23 -2 3 -');
  assert.equal(await stepsWithDamage('2', table), '+ 1 +2 21 +22 221 222 -22 23 ! -2 3 -');
  assert.equal(await stepsWithDamage('', table), '+ 1 +2 21 +22 221 222 -22 23 -2 3 ! -');
});

test('a member and the table of its directory damaged: the rest of the directory is lost, no more', async () => {
  const rest = (place: { position: number; end: number }) =>
    [place.position, place.end + 88] as const;
  assert.equal(await stepsWithDamage('2/22/222', rest), '+ 1 +2 21 +22 221 ! -22 23 -2 3 -');
});

test('where the outermost table is damaged too, a pass ends at the first damage', async () => {
  const encoded = encodePxar(tree, { version: 1 });
  const bytes = Buffer.from(encoded.metadata);
  bytes.fill(0, bytes.length - 24);
  const { position } = encoded.places.get('2/23') ?? { position: 0 };
  const archive = await openPxar(damagedReadAt(readAtBuffer(bytes), position, position + 1));
  assert.equal(await steps(archive), '+ 1 +2 21 +22 221 222 -22 ! -2 -');
});

test('a member that cannot be decoded is damage with its name', async () => {
  const encoded = encodePxar(tree, { version: 2 });
  const bytes = Buffer.from(encoded.metadata);
  // The type bits of its mode, behind the FILENAME item and the header of the ENTRY.
  bytes.writeUInt16LE(0o170644, (encoded.places.get('2/21')?.position ?? 0) + 19 + 16);
  const archive = await openPxar(readAtBuffer(bytes));
  const damages: unknown[] = [];
  for await (const step of archive.walk()) {
    if (step.step === 'damaged')
      damages.push([step.damage.name?.toString(), step.damage.error.code]);
  }
  assert.deepEqual(damages, [['21', 'corrupt']]);
});

test('a directory with a name that no filesystem takes is left out with all below', async () => {
  const hidden = directory(
    '',
    file('1'),
    directory('a/b', file('x'), directory('y', file('z'))),
    file('2'),
  );
  const archive = await openPxar(readAtBuffer(encodePxar(hidden, { version: 1 }).metadata));
  assert.equal(await steps(archive), '+ 1 ! 2 -');
});

test('that a server is gone ends a pass with its error', async () => {
  const { metadata, places } = encodePxar(tree, { version: 1 });
  const { position } = places.get('3') ?? { position: 0 };
  const source: ReadAt = damagedReadAt(
    readAtBuffer(metadata),
    position,
    position + 1,
    'unreachable',
  );
  await assert.rejects(steps(await openPxar(source)), expectError('unreachable'));
});

test('who gives up stops a pass or a listing, also where nothing has to be fetched', async () => {
  const many = directory('', ...Array.from({ length: 20_000 }, (_, i) => file(`${i}`)));
  const archive = await openPxar(readAtBuffer(encodePxar(many, { version: 2 }).metadata));
  const giveUpSoon = (): AbortSignal => {
    const controller = new AbortController();
    setImmediate(() => controller.abort());
    return controller.signal;
  };
  const pass = async (): Promise<void> => {
    for await (const _ of archive.walk(archive.root, giveUpSoon()));
  };
  await assert.rejects(pass(), expectError('aborted'));
  await assert.rejects(archive.readDirectory(archive.root, giveUpSoon()), expectError('aborted'));
});

test('directories 4,096 deep are walked and listed', async () => {
  let deep = directory('d', file('bottom'));
  for (let i = 1; i < 4096; i++) deep = directory('d', deep);
  const encoded: EncodedPxar = encodePxar(directory('', deep), { version: 2 });
  const archive = await openPxar(
    readAtBuffer(encoded.metadata),
    readAtBuffer(encoded.payload ?? Buffer.alloc(0)),
  );
  const walked = await walkAll(archive);
  assert.equal(walked.length, 4098);
  assert.equal(walked.at(-1)?.entry.name.toString(), 'bottom');
  assert.equal((await listAll(archive)).length, 4098);
});
