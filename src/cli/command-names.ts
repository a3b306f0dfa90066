/** Names and aliases of all commands, known before a program is made. */
export const commandNames: ReadonlySet<string> = new Set(
  'mount umount unmount ls cat find restore verify benchmark doctor demo help'.split(' '),
);
