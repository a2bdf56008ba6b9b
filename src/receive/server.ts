import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { getRequestListener, RequestError } from '@hono/node-server';
import { UsageError } from '../errors.ts';
import { PROBLEM_CONTENT_TYPE, problem, problemText } from '../problem.ts';
import { createConnections } from './connections.ts';

export interface ServerLimits {
  headersTimeoutMs: number;
  requestTimeoutMs: number;
  connectionsCheckMs: number;
  keepAliveTimeoutMs: number;
  maxHeaderBytes: number;
  maxConnections: number;
}

export const SERVER_LIMITS: ServerLimits = {
  /** Headers fit in one packet, or a few; the adapter alone would wait 89 s for them. */
  headersTimeoutMs: 10_000,
  /** The whole request, body included. A sender counts 15 s as a failure, so what takes longer is lost on it anyway. */
  requestTimeoutMs: 15_000,
  /** The two above are judged only this often. */
  connectionsCheckMs: 2_000,
  /** Longer than the 60 s for which common proxies keep an idle connection, so that they close first and race nobody. */
  keepAliveTimeoutMs: 75_000,
  /** Enough for a signature header of 1 KiB and whatever a chain of proxies adds. */
  maxHeaderBytes: 16_384,
  /** A connection costs a descriptor, and at worst a body in memory; the soft limit of descriptors is 1,024 on many systems. */
  maxConnections: 900,
};

export interface ListenOptions {
  /** A Hono app's. */
  fetch: (request: Request, env: object) => Response | Promise<Response>;
  host: string;
  /** 0: any free one. */
  port: number;
  /** Stops accepting when it aborts; `close` must be called all the same. */
  signal?: AbortSignal;
  /** Default: SERVER_LIMITS. */
  limits?: Partial<ServerLimits>;
}

export interface Listener {
  port: number;
  address: string;
  /**
   * Accepts no more, lets requests in flight finish and closes their connections behind them; after `drainMs`
   * cuts what is left. Resolves when no connection is open any more.
   */
  close(drainMs: number): Promise<void>;
}

/** Starts an HTTP server with every limit set. Rejects with UsageError where the address cannot be listened on. */
export async function listen(options: ListenOptions): Promise<Listener> {
  const handle = getRequestListener(options.fetch as Parameters<typeof getRequestListener>[0], {
    hostname: options.host,
    errorHandler: answerBrokenRequest,
  });
  const limits = { ...SERVER_LIMITS, ...options.limits };
  let closing = false;
  const connections = createConnections();
  const server = createServer(
    {
      headersTimeout: limits.headersTimeoutMs,
      requestTimeout: limits.requestTimeoutMs,
      connectionsCheckingInterval: limits.connectionsCheckMs,
      keepAliveTimeout: limits.keepAliveTimeoutMs,
      maxHeaderSize: limits.maxHeaderBytes,
    },
    (request: IncomingMessage, response: ServerResponse) => {
      if (closing) response.shouldKeepAlive = false;
      // The adapter's own: it answers every failure, and never rejects.
      void handle(request, response);
    },
  );
  server.maxConnections = limits.maxConnections;
  server.on('clientError', answerClientError);
  server.on('connection', connections.add);

  await startListening(server, options);
  const { port, address } = server.address() as AddressInfo;

  async function close(drainMs: number): Promise<void> {
    closing = true;
    for (const socket of connections.open()) {
      const response = currentResponse(socket);
      if (response !== undefined && !response.headersSent) response.shouldKeepAlive = false;
      // Node counts one that has not said anything yet as busy, and would wait for it.
      if (socket.bytesRead === 0) socket.destroy();
    }
    const closed = new Promise<void>((resolve) => {
      // An error says only that it was closed before, by the signal.
      server.close(() => resolve());
    });
    const cut = setTimeout(() => server.closeAllConnections(), drainMs);
    await closed;
    await Promise.all(connections.open().map(gone));
    clearTimeout(cut);
  }

  return { port, address, close };
}

function startListening(server: Server, { host, port, signal }: ListenOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    const fail = (error: NodeJS.ErrnoException) => reject(explain(error, host, port));
    server.once('error', fail);
    // Aborted before it listened. Later on, when this promise is settled, it means nothing.
    server.once('close', () => reject(new Error('stopped before it listened', { cause: signal?.reason })));
    server.listen({ host, port, signal }, () => {
      server.off('error', fail);
      resolve();
    });
  });
}

function explain(error: NodeJS.ErrnoException, host: string, port: number): Error {
  const where = `cannot listen on ${host}:${port}`;
  switch (error.code) {
    case 'EADDRINUSE':
      return new UsageError(`${where}: the port is in use`, 'stop what listens there, or set another port');
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
      return new UsageError(`${where}: this machine has no such address`, 'set another host');
    case 'EACCES':
      return new UsageError(`${where}: not permitted`, 'set a port of 1024 or more');
    default:
      return error;
  }
}

/** Requests that are HTTP and still make no Request: a bad Host, a backslash in the path. */
function answerBrokenRequest(error: unknown): Response {
  if (error instanceof RequestError)
    return problem(400, 'bad_request', 'The request cannot be read.', error.message);
  return problem(500, 'internal_error', 'Something went wrong here.');
}

/** Requests that are not HTTP, not small enough or not quick enough. There is no response object for them yet. */
function answerClientError(error: NodeJS.ErrnoException, socket: Socket): void {
  const begun = currentResponse(socket)?.headersSent === true;
  if (error.code === 'ECONNRESET' || !socket.writable || begun) {
    socket.destroy();
    return;
  }
  const [status, phrase, code, title] = clientErrorOf(error.code);
  const text = problemText(status, code, title);
  socket.write(
    `HTTP/1.1 ${status} ${phrase}\r\nContent-Type: ${PROBLEM_CONTENT_TYPE}\r\n` +
      `Content-Length: ${Buffer.byteLength(text)}\r\nConnection: close\r\n\r\n${text}`,
  );
  socket.destroySoon();
}

function clientErrorOf(code: string | undefined): readonly [number, string, string, string] {
  switch (code) {
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return [408, 'Request Timeout', 'request_timeout', 'The request took too long.'];
    case 'HPE_HEADER_OVERFLOW':
      return [431, 'Request Header Fields Too Large', 'headers_too_large', 'The headers are too large.'];
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return [413, 'Content Too Large', 'too_large', 'The chunk extensions are too large.'];
    default:
      return [400, 'Bad Request', 'bad_request', 'The request is not HTTP.'];
  }
}

/** The response that Node is preparing on a connection. It has no public way to it; graceful shutdown needs one. */
function currentResponse(socket: Socket): ServerResponse | undefined {
  return (socket as Socket & { _httpMessage?: ServerResponse | null })._httpMessage ?? undefined;
}

function gone(socket: Socket): Promise<void> {
  return new Promise((resolve) => {
    socket.once('close', () => resolve());
  });
}
