/** Where proxmox-backup-client keeps its files: in the user's own configuration, then in the machine's. */
import { homedir } from 'node:os';
import { join } from 'node:path';

/** `$XDG_CONFIG_HOME/proxmox-backup`, then that of each of `$XDG_CONFIG_DIRS`. */
export function configDirectories(env: NodeJS.ProcessEnv): readonly string[] {
  // Without HOME it is that of the passwd entry.
  const own = env['XDG_CONFIG_HOME'] || join(env['HOME'] || homedir(), '.config');
  const shared = (env['XDG_CONFIG_DIRS'] || '/etc/xdg').split(':').filter((path) => path !== '');
  return [own, ...shared].map((path) => join(path, 'proxmox-backup'));
}
