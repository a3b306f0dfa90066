/**
 * Other programs that mount backups, on the same image in a local repository of theirs. Only those that are
 * installed take part.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, existsSync, mkdirSync, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Contestant, Sample } from './bench-case.ts';
import { chunkContent, chunkSize } from './image-content.ts';
import { measured, mount, type StartMount } from './mounts.ts';
import { isInstalled, run } from './processes.ts';

interface Peer {
  readonly name: string;
  readonly command: string;
  /** Makes a repository that holds `image`. */
  backUp(repository: string, image: string): Promise<void>;
  mount(repository: string, image: string): StartMount;
  /** Path of the image in the mount. */
  path(image: string): string;
}

const passwordEnv = { RESTIC_PASSWORD: 'throw-away' };

export const resticName = 'restic mount';
export const borgName = 'borg mount';

const peers: readonly Peer[] = [
  {
    name: resticName,
    command: 'restic',
    backUp: async (repository, image) => {
      const common = ['--quiet', '--no-cache', '--repo', repository];
      // Format 2 is the one that compresses.
      await run('restic', [...common, 'init', '--repository-version', '2'], { env: passwordEnv });
      await run('restic', [...common, 'backup', image], { env: passwordEnv });
    },
    mount: (repository) => async (directory) => {
      const args = ['--no-cache', '--repo', repository, 'mount', directory];
      const child = spawn('restic', args, {
        stdio: 'ignore',
        env: { ...process.env, ...passwordEnv },
      });
      await untilExists(join(directory, 'snapshots/latest'), child);
      return child;
    },
    path: (image) => `snapshots/latest${image}`,
  },
  {
    name: borgName,
    command: 'borg',
    backUp: async (repository, image) => {
      await run('borg', ['init', '--encryption', 'none', repository], { env: borgEnv });
      await run('borg', ['create', '--compression', 'zstd,1', `${repository}::image`, image], {
        env: borgEnv,
      });
    },
    mount: (repository, image) => async (directory) => {
      const child = spawn('borg', ['mount', '--foreground', `${repository}::image`, directory], {
        stdio: 'ignore',
        env: { ...process.env, ...borgEnv },
      });
      await untilExists(join(directory, image), child);
      return child;
    },
    path: (image) => image.slice(1),
  },
];

const borgEnv = {
  BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK: 'yes',
  BORG_RELOCATED_REPO_ACCESS_IS_OK: 'yes',
};

/** Neither peer says when its mount is there. */
async function untilExists(path: string, child: ChildProcess): Promise<void> {
  const deadline = performance.now() + 60_000;
  while (!existsSync(path)) {
    if (performance.now() > deadline || child.exitCode !== null) {
      child.kill('SIGINT');
      throw new Error(`${path} did not appear`);
    }
    await sleep(20);
  }
}

/** Contestants that read the image of `size` bytes through each peer that is installed. */
export async function peersReading(
  directory: string,
  size: number,
  read: (path: string) => Promise<Sample>,
): Promise<readonly Contestant[]> {
  const contestants: Contestant[] = [];
  for (const peer of peers) {
    if (!(await isInstalled(peer.command))) continue;
    const repository = join(directory, `${peer.command}-${size}`);
    const image = join(directory, `image-${size}`);
    if (!existsSync(repository)) {
      writeImage(image, size);
      await peer.backUp(repository, image);
    }
    contestants.push({
      name: peer.name,
      run: async () => {
        await using mounted = await mount(peer.mount(repository, image));
        return await measured(mounted, () => read(join(mounted.directory, peer.path(image))));
      },
    });
  }
  return contestants;
}

function writeImage(path: string, size: number): void {
  if (existsSync(path)) return;
  mkdirSync(join(path, '..'), { recursive: true });
  const file = openSync(path, 'w');
  for (let i = 0; i * chunkSize < size; i++) {
    writeSync(file, chunkContent(i, Math.min(chunkSize, size - i * chunkSize)));
  }
  closeSync(file);
}
