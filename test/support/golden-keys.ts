/** The golden keys, unlocked. */
import type { CryptConfig } from '../../src/formats/crypt-config.ts';
import { parseKeyFile, unlockKeyFile } from '../../src/formats/key-file.ts';
import { goldenPassphrase, readGolden } from './golden.ts';

export const goldenKeyNames = ['none', 'scrypt', 'pbkdf2'] as const;
export type GoldenKeyName = (typeof goldenKeyNames)[number];

export async function goldenKey(name: GoldenKeyName): Promise<CryptConfig> {
  const keyFile = parseKeyFile(readGolden(`keys/${name}.json`).toString());
  return await unlockKeyFile(keyFile, Buffer.from(goldenPassphrase));
}

export async function goldenKeys(): Promise<CryptConfig[]> {
  return await Promise.all(goldenKeyNames.map(goldenKey));
}
