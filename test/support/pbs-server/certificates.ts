/** The throw-away certificates of the test server; see certificates/README.md. */
import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';

export type CertificateName = 'self-signed' | 'replaced' | 'ca-signed' | 'wrong-name';

export interface ServerCertificate {
  readonly key: string;
  readonly cert: string;
  /** SHA-256 of the certificate, upper-case hex with colons, as PBS shows it. */
  readonly fingerprint: string;
}

function readPem(name: string): string {
  return readFileSync(new URL(`certificates/${name}.pem`, import.meta.url), 'utf8');
}

export function readCertificate(name: CertificateName): ServerCertificate {
  const pem = readPem(name);
  const split = pem.indexOf('-----BEGIN CERTIFICATE');
  const cert = pem.slice(split);
  return { key: pem.slice(0, split), cert, fingerprint: new X509Certificate(cert).fingerprint256 };
}

/** The CA that signed two of them. */
export function readTestCa(): string {
  return readPem('ca');
}
