/** A tree in a mount as a Python process sees it, in the form of `golden/expected/pxar-*.json`. */
import { python } from './golden-mount.ts';
import type { ListedEntry } from './pxar-listing.ts';

export interface WalkedEntry extends ListedEntry {
  readonly ino: number;
  /** Of files: units of 512 bytes. */
  readonly blocks?: number;
}

const script = `
import base64, hashlib, json, os, stat, sys
b64 = lambda value: base64.b64encode(value).decode()
types = {stat.S_IFDIR: 'd', stat.S_IFREG: 'f', stat.S_IFLNK: 'l', stat.S_IFCHR: 'c', stat.S_IFBLK: 'b',
         stat.S_IFIFO: 'p', stat.S_IFSOCK: 's'}
def visit(full, path):
    st = os.lstat(full)
    kind = types[stat.S_IFMT(st.st_mode)]
    entry = dict(path_b64=b64(path), type=kind, mode='%o' % stat.S_IMODE(st.st_mode), uid=st.st_uid, gid=st.st_gid,
                 mtime_ns=str(st.st_mtime_ns), nlink=st.st_nlink, ino=st.st_ino)
    if kind == 'f':
        # Plain calls: those of Python ask each file for more than its bytes.
        fd = os.open(full, os.O_RDONLY); digest = hashlib.sha256(); length = 0
        while part := os.read(fd, 1 << 20): digest.update(part); length += len(part)
        os.close(fd)
        assert length == st.st_size
        entry |= dict(size=length, blocks=st.st_blocks, sha256=digest.hexdigest())
    if kind == 'l': entry['target_b64'] = b64(os.readlink(full))
    if kind in 'cb': entry['rdev'] = [os.major(st.st_rdev), os.minor(st.st_rdev)]
    names = os.listxattr(full, follow_symlinks=False)
    if names: entry['xattrs_b64'] = {name: b64(os.getxattr(full, name, follow_symlinks=False)) for name in names}
    if kind == 'f' and st.st_nlink > 1:
        entry['hardlink_group'] = groups.setdefault(st.st_ino, [])
        entry['hardlink_group'].append(entry['path_b64'])
    entries.append(entry)
    if kind == 'd' and path != unlisted:
        for name in os.listdir(full): visit(full + b'/' + name, path + b'/' + name if path else name)
trees = []
for path, unlisted in json.loads(sys.argv[1]):
    unlisted = os.fsencode(unlisted); groups, entries = {}, []
    visit(os.fsencode(path), b'')
    for group in groups.values(): group.sort()
    trees.append(sorted(entries, key=lambda entry: base64.b64decode(entry['path_b64'])))
json.dump(trees, sys.stdout)
`;

interface Walk {
  readonly path: string;
  /** Below `path`: a directory whose members are left out. */
  readonly unlisted?: string;
}

/** All of each tree, its root with the path "", in the order of bytes. */
export async function walkMount(...walks: readonly Walk[]): Promise<WalkedEntry[][]> {
  const argument = JSON.stringify(walks.map(({ path, unlisted = '/' }) => [path, unlisted]));
  return JSON.parse(await python(script, argument)) as WalkedEntry[][];
}
