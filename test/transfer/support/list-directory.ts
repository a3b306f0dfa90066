/**
 * What is on disk, as Python sees it: an own reading of names as bytes, times, links, devices, contents and extended
 * attributes, in the form of `golden/expected/pxar-*.json`.
 */
import { execFileSync } from 'node:child_process';

export interface ListedOnDisk {
  readonly path_b64: string;
  readonly type: 'd' | 'f' | 'l' | 'b' | 'c' | 'p' | 's';
  readonly mode: string;
  readonly uid: number;
  readonly gid: number;
  readonly mtime_ns: string;
  readonly nlink: number;
  readonly size?: number;
  readonly sha256?: string;
  readonly target_b64?: string;
  readonly rdev?: readonly [major: number, minor: number];
  readonly xattrs_b64?: Readonly<Record<string, string>>;
  readonly hardlink_group?: readonly string[];
}

const script = `
import base64, collections, hashlib, json, os, stat, sys
b64 = lambda value: base64.b64encode(value).decode()
root = os.fsencode(sys.argv[1])
entries, groups = [], collections.defaultdict(list)
def visit(path):
    full = os.path.join(root, path) if path else root
    st = os.lstat(full)
    kind = {stat.S_IFDIR: 'd', stat.S_IFREG: 'f', stat.S_IFLNK: 'l', stat.S_IFBLK: 'b', stat.S_IFCHR: 'c',
            stat.S_IFIFO: 'p', stat.S_IFSOCK: 's'}[stat.S_IFMT(st.st_mode)]
    entry = {'path_b64': b64(path), 'type': kind, 'mode': '%o' % stat.S_IMODE(st.st_mode), 'uid': st.st_uid,
             'gid': st.st_gid, 'mtime_ns': str(st.st_mtime_ns), 'nlink': st.st_nlink}
    if kind == 'f':
        entry['size'] = st.st_size
        entry['sha256'] = hashlib.sha256(open(full, 'rb').read()).hexdigest()
    if kind == 'l': entry['target_b64'] = b64(os.readlink(full))
    if kind in 'bc': entry['rdev'] = [os.major(st.st_rdev), os.minor(st.st_rdev)]
    names = os.listxattr(full, follow_symlinks=False)
    if names:
        entry['xattrs_b64'] = {n: b64(os.getxattr(full, n, follow_symlinks=False)) for n in sorted(names)}
    if kind != 'd' and st.st_nlink > 1:
        groups[st.st_ino].append(entry['path_b64'])
        entry['hardlink_group'] = groups[st.st_ino]
    entries.append(entry)
    if kind == 'd':
        for name in sorted(os.listdir(full)): visit(os.path.join(path, name) if path else name)
sys.setrecursionlimit(10000)
visit(b'')
json.dump(entries, sys.stdout)
`;

/** All of `path`, itself with the path "", in the order of bytes. */
export function listDirectory(path: string): ListedOnDisk[] {
  const output = execFileSync('python3', ['-c', script, path], { maxBuffer: 1 << 27 });
  return JSON.parse(output.toString()) as ListedOnDisk[];
}
