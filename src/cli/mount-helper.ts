/**
 * Being called by mount(8), which knows two shapes:
 *
 *   mount.fuse.pbsfs SRC DIR [-sfnv] [-o OPTIONS]    `mount -t fuse.pbsfs`, by the link /sbin/mount.fuse.pbsfs
 *   pbsfs SRC DIR -o OPTIONS                         the same through fuse3's mount.fuse, without any link
 *
 * Both become arguments of `pbsfs mount --daemon`: mount(8) waits for its helper, so the helper returns when
 * the mount answers. PATH and HOME are not set then.
 */
import { basename } from 'node:path';
import { parseArgs } from 'node:util';
import { PbsfsError } from '../errors.ts';

const helperNames: ReadonlySet<string> = new Set(['mount.pbsfs', 'mount.fuse.pbsfs']);

/** The call is one of mount(8)'s. */
export function isHelperCall(
  program: string,
  args: readonly string[],
  commands: ReadonlySet<string>,
): boolean {
  if (helperNames.has(basename(program))) return !/^(--?help|-h|--version|-V)$/.test(args[0] ?? '');
  const [source = '-', directory = '-', ...rest] = args;
  if (source.startsWith('-') || directory.startsWith('-') || commands.has(source)) return false;
  return rest.length >= 2 && rest.at(-2) === '-o' && rest.slice(0, -2).every(isHelperFlag);
}

function isHelperFlag(arg: string): boolean {
  return /^-[sfnv]+$/.test(arg);
}

/**
 * The same call as arguments for `pbsfs`. `-n` (do not write mtab) and `-t` mean nothing to us.
 * @throws PbsfsError `usage`
 */
export function parseHelperCall(args: readonly string[]): readonly string[] {
  const { values, positionals } = parse(args);
  const [source, directory, ...excess] = positionals;
  if (source === undefined || directory === undefined || excess.length > 0) {
    throw new PbsfsError('usage', 'needs a repository and a mount point', { hint: usage });
  }
  const flags = [
    ...(values.s === true ? ['--sloppy'] : []),
    ...(values.f === true ? ['--fake'] : []),
    ...(values.v === true ? ['--verbose'] : []),
  ];
  const options = (values.o ?? []).flatMap((text) => ['-o', text]);
  return ['mount', '--daemon', '--helper', ...flags, ...options, '--', source, directory];
}

function parse(args: readonly string[]) {
  const flag = (short: string) => ({ type: 'boolean', short }) as const;
  const value = (short: string) => ({ type: 'string', short, multiple: true }) as const;
  const options = {
    o: value('o'),
    t: value('t'),
    s: flag('s'),
    f: flag('f'),
    n: flag('n'),
    v: flag('v'),
  };
  try {
    return parseArgs({ args: [...args], options, allowPositionals: true });
  } catch (error) {
    const why = error instanceof Error ? error.message.split('. ')[0] : String(error);
    throw new PbsfsError('usage', `${why}`, { hint: usage, cause: error });
  }
}

const usage = 'mount.fuse.pbsfs REPOSITORY DIR [-sfnv] [-o OPTIONS]';
