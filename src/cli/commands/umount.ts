/** `pbsfs umount`: takes a mount away, also one whose server has died. */
import { Command } from 'commander';
import { formatHolders } from '../../fuse/mount-holders.ts';
import { unmountPath } from '../../fuse/unmount.ts';
import { addHelpEnd } from '../common-options.ts';
import { standardErrorSink } from '../logging.ts';

/** The command for the program. */
export function createUmountCommand(): Command {
  const command = new Command('umount')
    .alias('unmount')
    .description('end a mount of pbsfs, also a dead one; one that is in use is detached')
    .argument('<dir>', 'its mount point');
  addHelpEnd(command, { repository: false, examples: 'pbsfs umount /mnt/pbs' });
  return command.action(async (directory: string) => {
    const { result, holders } = await unmountPath(directory);
    if (result === 'unmounted') return;
    const who = holders.length === 0 ? '' : ` by ${formatHolders(holders)}`;
    standardErrorSink(`${directory} is in use${who}: detached all the same`, 'warn');
  });
}
