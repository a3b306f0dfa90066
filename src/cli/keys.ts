/**
 * The keys of a command: the files of `--keyfile`, else proxmox-backup-client's default key file. Passphrases
 * come from PBS_ENCRYPTION_PASSWORD and its relatives, else from the terminal.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { KeyRing, type MasterKey } from '../archives/key-ring.ts';
import { isPbsfsError, PbsfsError, withContext } from '../errors.ts';
import type { CryptConfig } from '../formats/crypt-config.ts';
import { parseKeyFile, unlockKeyFile } from '../formats/key-file.ts';
import { decryptMasterKeyBlob, openPrivateKey } from '../formats/master-key.ts';
import type { Logger } from '../log.ts';
import { readSecret } from '../repository/pbs/secrets.ts';
import { configDirectories } from './config-directories.ts';
import type { Ask } from './prompt.ts';
import { readUserFile } from './user-file.ts';

const defaultKeyName = 'encryption-key.json';
const passphraseName = 'PBS_ENCRYPTION_PASSWORD';

export interface KeyOptions {
  readonly keyfile: readonly string[];
  readonly masterKeyfile?: string | undefined;
}

/**
 * Reads and unlocks the keys. A default key whose passphrase nobody can give is left out with a warning:
 * what is not encrypted stays readable.
 * @throws PbsfsError `not-found`, `access-denied`, `corrupt`, `key-missing`, `key-wrong`
 */
export async function openKeyRing(
  options: KeyOptions,
  ask: Ask | undefined,
  logger: Logger,
): Promise<KeyRing> {
  const passphrases = new Passphrases(ask);
  const keys: CryptConfig[] = [];
  for (const path of options.keyfile) keys.push(await openKeyFile(path, passphrases));
  if (options.keyfile.length === 0) {
    const key = await openDefaultKey(passphrases, logger);
    if (key !== undefined) keys.push(key);
  }
  const { masterKeyfile } = options;
  if (masterKeyfile === undefined) return new KeyRing(keys);
  return new KeyRing(keys, await openMasterKey(masterKeyfile, passphrases));
}

async function openDefaultKey(
  passphrases: Passphrases,
  logger: Logger,
): Promise<CryptConfig | undefined> {
  const candidates = configDirectories(process.env);
  const path = candidates.map((folder) => join(folder, defaultKeyName)).find(existsSync);
  if (path === undefined) return undefined;
  try {
    return await openKeyFile(path, passphrases);
  } catch (error) {
    if (!isPbsfsError(error, 'key-missing')) throw error;
    logger('warn', `${path}: default key is not used: ${error.message} (${error.hint})`);
    return undefined;
  }
}

async function openKeyFile(path: string, passphrases: Passphrases): Promise<CryptConfig> {
  const text = await readUserFile(path, 'key file');
  return await withContext({ path }, async () => {
    const keyFile = parseKeyFile(text);
    if (keyFile.kdf.type === 'none') return await unlockKeyFile(keyFile);
    return await passphrases.unlock(`Passphrase for key ${path}: `, (passphrase) =>
      unlockKeyFile(keyFile, passphrase),
    );
  });
}

async function openMasterKey(path: string, passphrases: Passphrases): Promise<MasterKey> {
  const pem = await readUserFile(path, 'master key file');
  return await withContext({ path }, async () => {
    const recover =
      (passphrase?: Buffer): MasterKey =>
      async (encryptedKey) =>
        await unlockKeyFile(decryptMasterKeyBlob(encryptedKey, pem, passphrase));
    if (!pem.includes('ENCRYPTED')) {
      openPrivateKey(pem);
      return recover();
    }
    return await passphrases.unlock(`Passphrase for master key ${path}: `, async (passphrase) => {
      openPrivateKey(pem, passphrase);
      return recover(passphrase);
    });
  });
}

/** The passphrase of the environment, else what the user types; an answer is tried on later keys too. */
class Passphrases {
  readonly #ask: Ask | undefined;
  #known: Promise<Buffer[]> | undefined;

  constructor(ask: Ask | undefined) {
    this.#ask = ask;
  }

  /**
   * @param attempt throws `key-wrong` for a passphrase that does not fit.
   * @throws PbsfsError `key-missing` where there is no passphrase; `key-wrong` where none fits.
   */
  async unlock<T>(question: string, attempt: (passphrase: Buffer) => Promise<T>): Promise<T> {
    this.#known ??= fromEnvironment();
    const known = await this.#known;
    let failure: unknown = missing();
    for (const passphrase of known) {
      try {
        return await attempt(passphrase);
      } catch (error) {
        if (!isPbsfsError(error, 'key-wrong')) throw error;
        failure = error;
      }
    }
    if (this.#ask === undefined) throw failure;
    const answer = Buffer.from(await this.#ask({ text: question }));
    const opened = await attempt(answer);
    known.push(answer);
    return opened;
  }
}

async function fromEnvironment(): Promise<Buffer[]> {
  const secret = await readSecret(passphraseName, process.env);
  return secret === undefined ? [] : [Buffer.from(secret)];
}

function missing(): PbsfsError {
  return new PbsfsError('key-missing', 'is protected by a passphrase, and none was given', {
    hint: `set ${passphraseName}, or ${passphraseName}_FILE to a file that holds it`,
  });
}
