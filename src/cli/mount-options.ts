/**
 * The value of `-o`: what mount(8), fstab and users of other FUSE programs pass, comma-joined or repeated.
 *
 *   ours       allow_other allow_root default_permissions auto_unmount nonempty noexec
 *              uid= gid= umask= max_read= fsname=
 *   ignored    what is true of any mount or is only for mount(8) and systemd (`rw`, `nofail`, `x-…`)
 *   long ones  every long option of `pbsfs mount` without its dashes (`keyfile=/etc/a.json`)
 *
 * Anything else is a usage error: a misspelt option must not be silently without effect.
 */
import { PbsfsError } from '../errors.ts';

export interface MountOptions {
  readonly allowOther: boolean;
  readonly allowRoot: boolean;
  readonly defaultPermissions: boolean;
  readonly autoUnmount: boolean;
  readonly nonempty: boolean;
  readonly noexec: boolean;
  readonly uid?: number;
  readonly gid?: number;
  /** Bits taken away from every mode. */
  readonly umask?: number;
  /** Most bytes of one read request. */
  readonly maxRead?: number;
  readonly fsname?: string;
  readonly remount: boolean;
  /** Long options of the command in order, for it to judge: name and value. */
  readonly longOptions: readonly (readonly [name: string, value: string | undefined])[];
}

/** What mount(8), fstab(5), systemd.mount(5) and autofs pass along and a read-only FUSE mount is anyway. */
const ignoredNames: ReadonlySet<string> = new Set(
  `ro rw defaults auto noauto user nouser users group owner nofail _netdev
   atime noatime diratime nodiratime relatime norelatime strictatime nostrictatime lazytime nolazytime
   dev nodev suid nosuid exec sync async dirsync silent loud mand nomand comment`.split(/\s+/),
);
const flagNames = {
  allow_other: 'allowOther',
  allow_root: 'allowRoot',
  default_permissions: 'defaultPermissions',
  auto_unmount: 'autoUnmount',
  nonempty: 'nonempty',
  noexec: 'noexec',
  remount: 'remount',
} as const;
/** 2^32 − 1 is the kernel's "no id". */
const maxId = 0xffff_fffe;

type Values = { -readonly [K in keyof MountOptions]: MountOptions[K] };

/**
 * @param texts the values of all `-o`, in order.
 * @param longNames the long options that may stand here too.
 * @param sloppy mount(8)'s `-s`: unknown options are ignored.
 * @throws PbsfsError `usage`
 */
export function parseMountOptions(
  texts: readonly string[],
  longNames: ReadonlySet<string> = new Set(),
  sloppy = false,
): MountOptions {
  const longOptions: (readonly [string, string | undefined])[] = [];
  const values: Values = {
    allowOther: false,
    allowRoot: false,
    defaultPermissions: false,
    autoUnmount: false,
    nonempty: false,
    noexec: false,
    remount: false,
    longOptions,
  };
  for (const [name, value] of texts.flatMap(splitOptions)) {
    if (setFlag(values, name, value) || setValue(values, name, value) || isIgnored(name)) continue;
    if (longNames.has(name)) longOptions.push([name, value]);
    else if (!sloppy) throw unknownOption(name);
  }
  if (values.allowOther && values.allowRoot) {
    throw new PbsfsError(
      'usage',
      "mount options 'allow_other' and 'allow_root' exclude each other",
    );
  }
  return values;
}

function isIgnored(name: string): boolean {
  return ignoredNames.has(name) || /^x-/i.test(name);
}

/** Name and value of each option: cut at commas, but not at `\,`. Empty pieces are dropped. */
function splitOptions(text: string): (readonly [name: string, value: string | undefined])[] {
  return text
    .split(/(?<!\\),/)
    .map((option) => option.replaceAll('\\,', ',').trim())
    .filter((option) => option !== '')
    .map((option) => {
      const [name = ''] = option.split('=', 1);
      return [name, name === option ? undefined : option.slice(name.length + 1)];
    });
}

function setFlag(values: Values, name: string, value: string | undefined): boolean {
  if (!Object.hasOwn(flagNames, name)) return false;
  if (value !== undefined) throw new PbsfsError('usage', `mount option '${name}' takes no value`);
  values[flagNames[name as keyof typeof flagNames]] = true;
  return true;
}

function setValue(values: Values, name: string, value: string | undefined): boolean {
  switch (name) {
    case 'uid':
    case 'gid':
      values[name] = parseNumber(name, value, /^\d+$/, 10, maxId);
      return true;
    case 'umask':
      values.umask = parseNumber(name, value, /^[0-7]+$/, 8, 0o777);
      return true;
    case 'max_read':
      values.maxRead = parseNumber(name, value, /^[1-9]\d*$/, 10, 0xffff_ffff);
      return true;
    case 'fsname':
      if (value === undefined || value === '') throw badValue(name, value);
      values.fsname = value;
      return true;
    default:
      return false;
  }
}

function parseNumber(
  name: string,
  value: string | undefined,
  form: RegExp,
  radix: number,
  most: number,
): number {
  if (value === undefined || !form.test(value)) throw badValue(name, value);
  const number = Number.parseInt(value, radix);
  if (number > most) throw badValue(name, value);
  return number;
}

function badValue(name: string, value: string | undefined): PbsfsError {
  const given = value === undefined ? 'needs a value' : `has the wrong value '${value}'`;
  return new PbsfsError('usage', `mount option '${name}' ${given}`, {
    hint: name === 'umask' ? 'an octal number such as umask=022' : `write ${name}=…`,
  });
}

function unknownOption(name: string): PbsfsError {
  return new PbsfsError('usage', `unknown mount option '${name}'`, {
    hint: "'pbsfs mount --help' lists them",
  });
}
