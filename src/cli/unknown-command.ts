/** Names that are no commands of this version, and what to say to those who type them. */

/** Commands of proxmox-backup-client → what does the same here. */
const clientCommands: Readonly<Record<string, string>> = {
  map: "a mounted disk image is a plain file: 'pbsfs mount REPOSITORY DIR'",
  unmap: "images need no mapping: 'pbsfs umount DIR' ends the mount",
  list: "'pbsfs ls vm' lists the groups of virtual machines",
  snapshot: "'pbsfs ls vm/100' lists snapshots, 'pbsfs ls -l vm/100/latest' the files of one",
  snapshots: "'pbsfs ls vm/100' lists snapshots",
  namespace: "'pbsfs ls ns' lists namespaces",
  catalog: "'pbsfs ls -R' lists what is in a snapshot",
  login: 'set PBS_PASSWORD, or PBS_PASSWORD_FILE to a file that holds it',
};

/** Promised for later. */
const laterCommands: ReadonlySet<string> = new Set('backup key'.split(' '));

/** Message and hint for a name that is none of our commands; undefined where there is nothing to say. */
export function explainUnknownCommand(
  name: string,
): { readonly message: string; readonly hint: string } | undefined {
  if (laterCommands.has(name)) {
    return {
      message: `command '${name}' is not in this version`,
      hint: "'pbsfs --help' lists what is; a mount can be read with any tool",
    };
  }
  const hint = Object.hasOwn(clientCommands, name) ? clientCommands[name] : undefined;
  if (hint === undefined) return undefined;
  return { message: `'${name}' is a command of proxmox-backup-client`, hint };
}
