/** From the options of a command to the place that holds the backups. */
import { existsSync } from 'node:fs';
import { PbsfsError } from '../errors.ts';
import { formatNamespace, isSafeId, type Namespace } from '../formats/snapshot-path.ts';
import type { Logger } from '../log.ts';
import { openDatastore } from '../repository/datastore/datastore.ts';
import type { CheckResult } from '../repository/pbs/check-server.ts';
import { formatRepositoryString } from '../repository/pbs/repository-string.ts';
import { readSecret } from '../repository/pbs/secrets.ts';
import type { ConfirmFingerprint } from '../repository/pbs/tls-connector.ts';
import type { Repository } from '../repository/repository.ts';
import { withRetry } from '../repository/with-retry.ts';
import type { RepositoryOptions } from './common-options.ts';
import type { Ask } from './prompt.ts';
import { parseRepositoryArgument, type RepositoryArgument } from './repository-argument.ts';

/** A repository that is known and not yet opened. */
export interface RepositoryTarget {
  /** As the user named it. */
  readonly name: string;
  readonly namespace: Namespace;
  /** Encryption key that belongs to it. */
  readonly keyFile: string | undefined;
  /** Directories on this machine that it is read from. */
  readonly localPaths: readonly string[];
  /**
   * @param wrap goes around what answers, below what asks it again and again.
   * @throws PbsfsError `not-found`, `access-denied`, `unreachable`, …
   */
  open(wrap?: (repository: Repository) => Repository): Promise<Repository>;
  /** The way to a server one step at a time; ends with the first that fails. */
  checkSteps?(): AsyncIterable<CheckResult>;
}

/**
 * What the options and the environment name, checked as far as that goes without looking there.
 * @throws PbsfsError `usage`; `unsupported` for an object store.
 */
export async function locateRepository(
  options: RepositoryOptions,
  ask: Ask | undefined,
  logger: Logger,
): Promise<RepositoryTarget> {
  const text = options.repository ?? (await fromEnvironment(options));
  if (text === undefined) return await locateServer(undefined, options, ask, logger);
  const argument = parseRepositoryArgument(text);
  if (argument.kind === 'server' && isSafeId(text) && existsSync(text)) {
    logger(
      'warn',
      `'${text}' is taken for a datastore of a server (write ./${text} for the directory)`,
    );
  }
  if (argument.kind === 'directory') return locateDirectory(text, argument, options, logger);
  return await locateServer(argument.location, options, ask, logger);
}

/** Whether options or environment name one, for commands that can do without. */
export function namesRepository({ repository, pveStorage }: RepositoryOptions): boolean {
  const variables = Object.keys(process.env).filter((name) =>
    /^PBS_(REPOSITORY|DATASTORE)/.test(name),
  );
  return repository !== undefined || pveStorage !== undefined || variables.length > 0;
}

/** PBS_REPOSITORY; undefined where the parts of a location are given by other variables. */
async function fromEnvironment({ pveStorage }: RepositoryOptions): Promise<string | undefined> {
  if (pveStorage !== undefined) return undefined;
  const text = await readSecret('PBS_REPOSITORY', process.env);
  if (text !== undefined && text !== '') return text;
  if (process.env['PBS_DATASTORE']) return undefined;
  throw new PbsfsError('usage', 'no repository given', {
    hint: 'name it with --repository or PBS_REPOSITORY',
  });
}

function locateDirectory(
  name: string,
  { path }: RepositoryArgument & { kind: 'directory' },
  { chunkDir, ns = [] }: RepositoryOptions,
  logger: Logger,
): RepositoryTarget {
  return {
    name,
    namespace: ns,
    keyFile: undefined,
    localPaths: [path, ...chunkDir],
    open: async (wrap = asItIs) => wrap(await openDatastore(path, { chunkDirs: chunkDir, logger })),
  };
}

async function locateServer(
  repository: string | undefined,
  options: RepositoryOptions,
  ask: Ask | undefined,
  logger: Logger,
): Promise<RepositoryTarget> {
  if (options.chunkDir.length > 0) {
    throw new PbsfsError('usage', 'option --chunk-dir is for datastore directories');
  }
  // Most of the start-up time: not for those who read a directory.
  const [{ resolvePbs }, { openPbs }, { checkServer }] = await Promise.all([
    import('../repository/pbs/from-environment.ts'),
    import('../repository/pbs/pbs-repository.ts'),
    import('../repository/pbs/check-server.ts'),
  ]);
  const { settings, keyFile } = await resolvePbs(
    {
      repository,
      name: repository,
      pveStorage: options.pveStorage,
      namespace: options.ns === undefined ? undefined : formatNamespace(options.ns),
      fingerprint: options.fingerprint,
      promptPassword:
        ask === undefined ? undefined : (authId) => ask({ text: `Password for ${authId}: ` }),
      confirmFingerprint: ask === undefined ? undefined : confirmBy(ask),
      logger,
    },
    process.env,
  );
  return {
    name: repository ?? formatRepositoryString(settings),
    namespace: settings.namespace ?? [],
    keyFile,
    localPaths: [],
    open: async (wrap = asItIs) => withRetry(wrap(await openPbs(settings))),
    checkSteps: () => checkServer(settings),
  };
}

function asItIs(repository: Repository): Repository {
  return repository;
}

function confirmBy(ask: Ask): ConfirmFingerprint {
  return async ({ place, seen, expected, fault }) => {
    const wanted = expected === undefined ? '' : `\nExpected:        ${expected}`;
    const text = `The certificate of ${place} is not trusted: ${fault}.
Its fingerprint: ${seen}${wanted}
Connect all the same? (yes/no) `;
    return (await ask({ text, isVisible: true })) === 'yes';
  };
}
