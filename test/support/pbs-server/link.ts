/**
 * A bad line in front of the test server: a relay that delays and throttles the bytes of each direction,
 * swallows them (a half-open connection), or cuts.
 */
import { once } from 'node:events';
import net from 'node:net';

export interface LinkOptions {
  /** Milliseconds that each direction takes. */
  readonly latency?: number;
  /** Bytes per second from the server, over all connections; 0 or absent: as fast as it goes. */
  readonly bandwidth?: number;
}

/** Bytes that a direction holds before it stops reading: what a line and its buffers would hold. */
const lineCapacity = 64 * 1024 * 1024;
const sliceSize = 64 * 1024;

export class Link implements AsyncDisposable {
  latency: number;
  bandwidth: number;
  /** While true every byte vanishes and no connection ends. */
  blackhole = false;
  readonly #server: net.Server;
  readonly #sockets = new Set<net.Socket>();
  #lineFreeAt = 0;

  private constructor(target: number, options: LinkOptions) {
    this.latency = options.latency ?? 0;
    this.bandwidth = options.bandwidth ?? 0;
    this.#server = net.createServer({ pauseOnConnect: false }, (client) => {
      const upstream = net.connect(target, '127.0.0.1');
      for (const socket of [client, upstream]) {
        socket.setNoDelay(true);
        this.#sockets.add(socket);
        socket.on('error', () => {});
        socket.on('close', () => this.#sockets.delete(socket));
      }
      this.#relay(client, upstream, () => 0);
      this.#relay(upstream, client, (bytes) => this.#lineTime(bytes));
    });
  }

  static async open(target: number, options: LinkOptions): Promise<Link> {
    const link = new Link(target, options);
    link.#server.listen(0, '127.0.0.1');
    await once(link.#server, 'listening');
    return link;
  }

  get port(): number {
    return (this.#server.address() as net.AddressInfo).port;
  }

  /** Ends every connection at once. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.close();
    this.cut();
  }

  /** Milliseconds until the line has taken `bytes` behind what is on it already. */
  #lineTime(bytes: number): number {
    if (this.bandwidth === 0) return 0;
    const now = performance.now();
    this.#lineFreeAt = Math.max(this.#lineFreeAt, now) + (bytes / this.bandwidth) * 1000;
    return this.#lineFreeAt - now;
  }

  #relay(from: net.Socket, to: net.Socket, lineTime: (bytes: number) => number): void {
    const line = new DelayLine((slice) => {
      if (this.blackhole || to.destroyed) return;
      if (slice === undefined) to.end();
      else to.write(slice);
      if (line.held <= lineCapacity) from.resume();
    });
    from.on('data', (bytes: Buffer) => {
      for (let at = 0; at < bytes.length; at += sliceSize) {
        const slice = bytes.subarray(at, at + sliceSize);
        line.push(slice, this.latency + lineTime(slice.length));
      }
      if (line.held > lineCapacity) from.pause();
    });
    from.on('end', () => line.push(undefined, this.latency + lineTime(0)));
    from.on('close', (failed: boolean) => {
      if (failed && !this.blackhole) to.destroy();
    });
  }
}

/** Slices in order, each delivered when its time has come; undefined is the end. */
class DelayLine {
  held = 0;
  readonly #deliver: (slice: Buffer | undefined) => void;
  readonly #queue: { slice: Buffer | undefined; due: number }[] = [];
  #waiting = false;

  constructor(deliver: (slice: Buffer | undefined) => void) {
    this.#deliver = deliver;
  }

  push(slice: Buffer | undefined, delay: number): void {
    this.held += slice?.length ?? 0;
    this.#queue.push({ slice, due: performance.now() + delay });
    if (!this.#waiting) this.#pump();
  }

  #pump(): void {
    for (let next = this.#queue[0]; next !== undefined; next = this.#queue[0]) {
      const wait = next.due - performance.now();
      if (wait > 0.5) {
        this.#waiting = true;
        setTimeout(() => this.#pump(), wait);
        return;
      }
      this.#queue.shift();
      this.held -= next.slice?.length ?? 0;
      this.#deliver(next.slice);
    }
    this.#waiting = false;
  }
}
