/** The settings that lead to a test server. */
import { parseRepositoryString } from '../../../src/repository/pbs/repository-string.ts';
import type { PbsSettings } from '../../../src/repository/pbs/settings.ts';
import { type PbsServer, testPassword } from './server.ts';

export function settingsFor(server: PbsServer, overrides: Partial<PbsSettings> = {}): PbsSettings {
  return {
    ...parseRepositoryString(server.repository),
    fingerprint: server.fingerprint,
    secret: async () => testPassword,
    ...overrides,
  };
}
