/** The golden pxar fixtures as values: `golden/v2/expected.json`, and it as a tree for the test encoder. */
import type { PxarNode } from './encode-pxar.ts';
import { readGolden } from './golden.ts';

export interface ExpectedEntry {
  /** Raw path with a leading slash. */
  readonly path_b64: string;
  readonly type: 'dir' | 'file' | 'symlink' | 'hardlink' | 'chr' | 'blk' | 'fifo' | 'sock';
  readonly mode: string;
  readonly uid: number;
  readonly gid: number;
  readonly flags: number;
  readonly size: number;
  readonly mtime_s: number;
  readonly mtime_nanos: number;
  readonly sha256?: string;
  readonly xattrs: Readonly<Record<string, string>>;
  readonly fcaps_b64?: string;
  readonly quota_project_id?: number;
  readonly acl?: ExpectedAcl;
  readonly link_target_b64?: string;
  readonly link_target_path_b64?: string;
  readonly rdev?: { readonly major: number; readonly minor: number };
}

interface ExpectedAcl {
  readonly users: readonly (readonly [number, number])[];
  readonly groups: readonly (readonly [number, number])[];
  readonly group_obj: number | null;
  /** user, group, other, mask as decimal; 2^64−1 is "not set". */
  readonly default?: readonly string[];
  readonly default_users?: readonly (readonly [number, number])[];
  readonly default_groups?: readonly (readonly [number, number])[];
}

/** What the reference reader reports of an entry. */
export interface ExpectedOffsets {
  readonly path_b64: string;
  readonly type: ExpectedEntry['type'];
  readonly filename_header_offset: number | null;
  readonly entry_start: number;
  readonly entry_end: number;
  readonly raw_offset?: number;
  readonly payload_ref_offset?: number;
  readonly hardlink_offset?: number;
  readonly goodbye_order_b64?: readonly string[];
  readonly sha256?: string;
}

export function expectedEntries(): readonly ExpectedEntry[] {
  return JSON.parse(readGolden('v2/expected.json').toString()) as ExpectedEntry[];
}

/** @param name `v1`, `v2`, `v2-prelude` or `v2-reuse` */
export function expectedOffsets(name: string): readonly ExpectedOffsets[] {
  const lines = readGolden(`v2/rust/${name}.offsets.jsonl`).toString().trim().split('\n');
  return lines.map((line) => JSON.parse(line) as ExpectedOffsets);
}

/** The tree that all of `golden/v2/rust` was written from. */
export function goldenTree(): PxarNode {
  const archive = readGolden('v2/rust/v1.pxar');
  const starts = new Map(expectedOffsets('v1').map((entry) => [entry.path_b64, entry.raw_offset]));
  const entries = expectedEntries();
  const pathOf = (entry: ExpectedEntry): string =>
    Buffer.from(entry.path_b64, 'base64').toString('latin1');
  const childrenOf = (path: string): PxarNode[] => {
    const prefix = path === '/' ? path : `${path}/`;
    return entries
      .filter((entry) => {
        const rest = pathOf(entry);
        return rest !== '/' && rest.startsWith(prefix) && !rest.slice(prefix.length).includes('/');
      })
      .map(build);
  };
  const build = (entry: ExpectedEntry): PxarNode => {
    const path = pathOf(entry);
    const name = Buffer.from(path.slice(path.lastIndexOf('/') + 1), 'latin1');
    if (entry.type === 'hardlink') {
      return {
        type: 'hardlink',
        name,
        target: Buffer.from(entry.link_target_path_b64 ?? '', 'base64'),
      };
    }
    const base = { name, ...metadataOf(entry) };
    const { major, minor } = entry.rdev ?? { major: 0, minor: 0 };
    switch (entry.type) {
      case 'dir':
        return { ...base, type: 'directory', children: childrenOf(path) };
      case 'file': {
        const start = starts.get(entry.path_b64) ?? 0;
        return { ...base, type: 'file', content: archive.subarray(start, start + entry.size) };
      }
      case 'symlink':
        return {
          ...base,
          type: 'symlink',
          target: Buffer.from(entry.link_target_b64 ?? '', 'base64'),
        };
      case 'chr':
        return { ...base, type: 'char', major, minor };
      case 'blk':
        return { ...base, type: 'block', major, minor };
      default:
        return { ...base, type: entry.type === 'sock' ? 'socket' : 'fifo' };
    }
  };
  const root = entries[0];
  if (root === undefined) throw new Error('the golden tree has a root');
  return build(root);
}

function metadataOf(entry: ExpectedEntry) {
  const { acl } = entry;
  return {
    permissions: Number.parseInt(entry.mode, 8) & 0o7777,
    flags: BigInt(entry.flags),
    uid: entry.uid,
    gid: entry.gid,
    mtime: { seconds: entry.mtime_s, nanos: entry.mtime_nanos },
    xattrs: Object.entries(entry.xattrs).map(
      ([name, value]) => [name, Buffer.from(value, 'base64')] as const,
    ),
    ...(entry.fcaps_b64 === undefined ? {} : { fcaps: Buffer.from(entry.fcaps_b64, 'base64') }),
    ...(entry.quota_project_id === undefined ? {} : { quotaProjectId: entry.quota_project_id }),
    ...(acl === undefined
      ? {}
      : {
          acl: {
            users: acl.users,
            groups: acl.groups,
            ...(acl.group_obj === null ? {} : { groupObject: acl.group_obj }),
            ...(acl.default === undefined
              ? {}
              : {
                  default: acl.default.map((value) =>
                    value.length > 1 ? undefined : Number(value),
                  ),
                }),
            defaultUsers: acl.default_users ?? [],
            defaultGroups: acl.default_groups ?? [],
          },
        }),
  };
}
