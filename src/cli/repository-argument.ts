/**
 * The REPOSITORY of the command line.
 *
 *   /abs, ./rel, ../rel, ., .., dir:PATH   a datastore directory
 *   s3://bucket[/prefix]                   an object store
 *   anything else                          a live server, PBS's own grammar
 */
import { PbsfsError } from '../errors.ts';

export type RepositoryArgument =
  | { readonly kind: 'directory'; readonly path: string }
  | { readonly kind: 'server'; readonly location: string };

/** @throws PbsfsError `usage`; `unsupported` for an object store. */
export function parseRepositoryArgument(text: string | undefined): RepositoryArgument {
  if (text === undefined || text === '') {
    throw new PbsfsError('usage', 'no repository given', {
      hint: 'name it with --repository or PBS_REPOSITORY',
    });
  }
  if (text.startsWith('dir:')) {
    const path = text.slice('dir:'.length);
    if (path === '') throw new PbsfsError('usage', "repository 'dir:' lacks a path");
    return { kind: 'directory', path };
  }
  if (/^(\/|\.\.?(\/|$))/.test(text)) return { kind: 'directory', path: text };
  if (text.startsWith('s3:')) {
    throw new PbsfsError('unsupported', 'object stores cannot be opened by this version', {
      context: { repository: text },
      hint: 'use the server that owns the bucket, or a copy of it in a directory',
    });
  }
  return { kind: 'server', location: text };
}
