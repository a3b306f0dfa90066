/**
 * Tells systemd how far a service is (`Type=notify`), see sd_notify(3). The message goes into a unix datagram
 * socket, which Node cannot open, so systemd's own program sends it.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';

/** `READY=1` or `STOPPING=1`; nothing where no service manager asked, or where systemd-notify is missing. */
export async function notifyServiceManager(state: 'READY=1' | 'STOPPING=1'): Promise<void> {
  if (!process.env['NOTIFY_SOCKET']) return;
  const child = spawn('systemd-notify', [state], { stdio: 'ignore' });
  // A failure is no reason to stop: the service manager times out by itself and says so.
  await once(child, 'close').catch(() => {});
}
