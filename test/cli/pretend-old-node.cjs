// Preloaded by a test: bin/pbsfs.js then believes that it runs on a Node that is too old.
if (process.env.PBSFS_RELAYED === undefined) {
  const versions = { ...process.versions, node: '20.0.0' };
  Object.defineProperty(process, 'versions', { value: versions });
  delete process.execve;
}
