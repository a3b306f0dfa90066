/** Wrong command lines: each is refused with its own message, none is quietly something else. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CommanderError } from 'commander';
import { commandNames } from '../../src/cli/command-names.ts';
import { exitCodes } from '../../src/cli/exit-code.ts';
import { createProgram, translateCommanderError } from '../../src/cli/program.ts';
import { type PbsfsError, toPbsfsError } from '../../src/errors.ts';

const context = { args: [], background: undefined, ask: undefined };

/** What the command line is told; it must fail before anything is done. */
async function refusal(line: string): Promise<PbsfsError> {
  const args = line === '' ? [] : line.split(' ');
  const program = createProgram({ ...context, args });
  for (const command of [program, ...program.commands]) {
    command.configureOutput({ writeErr: () => {}, outputError: () => {} });
  }
  try {
    await program.parseAsync(args, { from: 'user' });
  } catch (error) {
    if (!(error instanceof CommanderError)) return toPbsfsError(error);
    return translateCommanderError(error, args) ?? assert.fail('was shown help');
  }
  assert.fail('was accepted');
}

const refused: readonly (readonly [line: string, said: RegExp])[] = [
  ['', /no command given/],
  ['lss', /unknown command 'lss'.*Did you mean ls/],
  ['ls --jsn', /unknown option '--jsn'.*Did you mean --json/],
  ['ls --nothing-like-it', /unknown option.*pbsfs ls --help/],
  ['cat', /missing required argument 'path'/],
  ['umount', /missing required argument 'dir'/],
  ['umount a b', /too many arguments/],
  ['mount', /no mount point given/],
  ['mount a b c', /too many arguments/],
  ['ls', /no repository given.*PBS_REPOSITORY/],
  ['ls -r /x --cache-chunks 0', /--cache-chunks.*at least 1/],
  ['ls -r /x --cache-chunks 1.5', /--cache-chunks.*at least 1/],
  ['ls -r /x --cache-chunks -1', /--cache-chunks.*at least 1/],
  ['ls -r /x --concurrency many', /--concurrency.*at least 1/],
  ['ls -r /x --ns a//b', /--ns/],
  ['ls -r /x --log loud', /--log.*error, warn, info, debug/],
  ['ls -r /x --time-format %Y', /--time-format.*missing/],
  ['mount --driver best /x /y', /--driver.*auto, kernel, fuse-native/],
  ['mount --on-error ignore /x /y', /--on-error.*eio, zero/],
  ['mount -o alow_other /x /y', /unknown mount option 'alow_other'/],
  ['mount -o daemon /x /y', /unknown mount option 'daemon'/],
  ['mount -o helper /x /y', /unknown mount option 'helper'/],
  ['mount -o cache-chunks=0 /x /y', /--cache-chunks.*at least 1/],
  ['mount -o cache-chunks /x /y', /--cache-chunks.*argument missing/],
  ['mount -o owner-root=1 /x /y', /'owner-root' takes no value/],
  ['cat -r /x --prefetch -1 vm/1', /--prefetch.*at least 0/],
  ['find -r /x --type q', /--type.*f,d,l,b,c,p,s/],
  ['find -r /x --size big', /--size.*\+10M/],
  ['find -r /x --newer yesterday', /--newer.*2023-11-14/],
  ['find -r /x --name [[:alfa:]]', /unknown class \[:alfa:\]/],
  ['restore -r /x vm/100', /missing required argument 'target'/],
  ['restore -r /x vm/100 /tmp/x --format cpio', /--format.*tar, zip, pxar/],
  ['restore -r /x vm/100 /tmp/x --pattern [a', /pattern '\[a'.*not closed/],
  ['restore -r /x vm/100 /tmp/x --strip-components -1', /--strip-components.*whole number/],
  ['restore -r /x vm/100 /tmp/x --overwrite --resume', /exclude each other/],
  // Of a later version: refused, never ignored.
  ['cat -r /x --cache-size 1G vm/1', /--cache-size.*without --cache-dir/],
  ['cat -r /x --cache-dir /c --cache-size big vm/1', /--cache-size.*500M/],
  ['cat -r /x --cache-dir /c --cache-size 0 vm/1', /--cache-size.*500M/],
  ['backup a.img:/dev/sda', /'backup' is not in this version/],
  ['key create', /'key' is not in this version/],
  ['verify', /no repository given/],
  ['verify -r /x --concurrency 0', /--concurrency.*at least 1/],
  ['verify -r /x --cache-dir /c', /unknown option '--cache-dir'/],
  ['benchmark --seconds 0', /--seconds.*number of seconds/],
  ['benchmark vm/100', /no repository given/],
  // What users of proxmox-backup-client type.
  ['map vm/100 drive-scsi0.img', /proxmox-backup-client.*plain file/],
  ['unmap /dev/loop0', /proxmox-backup-client.*umount/],
  ['list', /proxmox-backup-client.*pbsfs ls/],
  ['snapshot list', /proxmox-backup-client.*pbsfs ls/],
];

for (const [line, said] of refused) {
  test(`'pbsfs ${line}' is refused`, async () => {
    const error = await refusal(line);
    assert.match(`${error.message} (${error.hint})`, said);
    assert.equal(exitCodes[error.code], 2);
  });
}

test('the names known beforehand are those of the program', () => {
  const program = createProgram(context);
  const names = program.commands.flatMap((command) => [command.name(), ...command.aliases()]);
  assert.deepEqual(new Set([...names, 'help']), commandNames);
});

test('every command says in its help how it ends and shows an example', () => {
  for (const command of createProgram(context).commands) {
    let help = '';
    command.configureOutput({
      writeOut: (text) => {
        help += text;
      },
    });
    command.outputHelp();
    assert.match(help, /Exit codes:\n {2}0 done/, command.name());
    assert.match(help, new RegExp(`Examples:\n {2}pbsfs ${command.name()}`));
  }
});
