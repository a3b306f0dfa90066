/** An HTTP proxy that knows CONNECT alone. */
import { once } from 'node:events';
import net, { type AddressInfo } from 'node:net';
import type { ProxySettings } from '../../../src/repository/pbs/proxy.ts';

export interface TestProxy extends AsyncDisposable {
  /** The head of each request. */
  readonly requests: readonly string[];
  readonly proxy: ProxySettings;
}

/** @param target port where every tunnel ends; 0 refuses them. */
export async function startProxy(target: number, credentials?: string): Promise<TestProxy> {
  const requests: string[] = [];
  const server = net.createServer((client) => {
    client.on('error', () => {});
    client.once('data', (bytes) => {
      requests.push(bytes.toString());
      const wanted = credentials && `Basic ${Buffer.from(credentials).toString('base64')}`;
      if (wanted && !bytes.includes(`Proxy-Authorization: ${wanted}\r\n`)) {
        client.end('HTTP/1.1 407 Proxy Authentication Required\r\n\r\n');
        return;
      }
      if (target === 0) {
        client.end('HTTP/1.1 403 Forbidden\r\n\r\n');
        return;
      }
      const upstream = net.connect(target, '127.0.0.1', () => {
        client.write('HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n');
        client.pipe(upstream).pipe(client);
      });
      upstream.on('error', () => client.destroy());
      client.on('close', () => upstream.destroy());
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    requests,
    proxy: { host: '127.0.0.1', port, credentials },
    async [Symbol.asyncDispose]() {
      server.close();
    },
  };
}
