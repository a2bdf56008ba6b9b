import { once } from 'node:events';
import {
  createServer,
  type IncomingMessage,
  type ServerOptions,
  type ServerResponse,
  STATUS_CODES,
} from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { getRequestListener, RequestError } from '@hono/node-server';
import type { Addresses } from '../platform/addresses.ts';
import { UsageError } from '../platform/errors.ts';
import { PROBLEM_CONTENT_TYPE, problem, problemText } from '../platform/problem.ts';
import { stopReading } from './body.ts';
import { type ConnectionLimits, createConnections } from './connections.ts';

/** Node's own, by its names, and those of connections. Times in milliseconds. */
export const SERVER_LIMITS = {
  /** Headers come in a few packets. The adapter alone would wait 89 s for them. */
  headersTimeout: 10_000,
  /** For the whole request with its body. A sender gives up after 15 s. */
  requestTimeout: 15_000,
  /** How often the two above are checked. */
  connectionsCheckingInterval: 2_000,
  /** Common proxies keep an idle connection for 60 s. They must close first, so that no request is lost. */
  keepAliveTimeout: 75_000,
  /** A connection costs a file descriptor, of which many systems allow 1,024, and at worst a body in memory. */
  maxConnections: 900,
  /** A third of all, enough for a sender with many machines behind one address. A trusted proxy has no such limit. */
  maxConnectionsPerNetwork: 300,
} satisfies ServerOptions & ConnectionLimits;

/**
 * Connections that the system queues until they are accepted (the system may have a lower limit). When the queue is full, a new
 * client gets no answer and tries again after a second. With Node's default of 511 a thousand strangers caused that.
 */
const BACKLOG = 4_096;

export interface ListenOptions {
  /** Of a Hono app. */
  fetch: (request: Request, env: object) => Response | Promise<Response>;
  host: string;
  /** 0: any free port. */
  port: number;
  /** The prefix of the listener's settings, for errors: `OPS_`. Default: none. */
  settings?: string;
  /** Knows the trusted proxies. Default: there are none. */
  addresses?: Pick<Addresses, 'isProxy'>;
  /** Default: SERVER_LIMITS. */
  limits?: Partial<typeof SERVER_LIMITS>;
}

export interface Listener {
  port: number;
  /** Accepts no more connections, lets requests finish, and cuts the rest after `drainMs`. Resolves when all connections are closed. */
  close(drainMs: number): Promise<void>;
}

/** Starts an HTTP server with every limit set. Rejects with UsageError if it cannot listen on the address. */
export async function listen(options: ListenOptions): Promise<Listener> {
  const { isProxy = () => false } = options.addresses ?? {};
  const limits = { ...SERVER_LIMITS, ...options.limits };
  const connections = createConnections(limits, isProxy);
  const fetch = (request: Request, env: { incoming: IncomingMessage }) =>
    isForOneHost(env.incoming)
      ? options.fetch(request, env)
      : problem(400, 'bad_request', 'The request must name one host.');
  const handle = getRequestListener(fetch as Parameters<typeof getRequestListener>[0], {
    hostname: options.host.includes(':') ? `[${options.host}]` : options.host,
    errorHandler: answerBrokenRequest,
    // It would read and discard up to 64 MiB of a body. `leaveUnread` does not.
    autoCleanupIncoming: false,
  });
  let closing = false;
  const onRequest = async (request: IncomingMessage, response: ServerResponse) => {
    if (!connections.asked(request.socket, response)) return;
    if (closing) response.setHeader('connection', 'close');
    // Answers every failure, and never rejects.
    await handle(request, response);
    leaveUnread(request, response);
  };
  // Host is checked by `isForOneHost`, because Node's own answer would have no body.
  const server = createServer({ ...limits, requireHostHeader: false }, onRequest);
  // Node would answer 417 by itself, outside all limits. An unknown expectation may be ignored (RFC 9110).
  server.on('checkExpectation', onRequest);
  server.on('clientError', (error, stream) => {
    const socket = stream as Socket;
    answerClientError(error, socket, connections.responseOf(socket));
  });
  server.on('connection', connections.add);

  server.listen({ host: options.host, port: options.port, backlog: BACKLOG });
  await once(server, 'listening').catch((error) => {
    throw explain(error, options);
  });
  const { port } = server.address() as AddressInfo;

  async function close(drainMs: number): Promise<void> {
    closing = true;
    for (const socket of connections.open()) {
      const response = connections.responseOf(socket);
      if (response?.headersSent === false) response.setHeader('connection', 'close');
      // Node counts a connection without any bytes as busy, and would wait for it.
      if (socket.bytesRead === 0) socket.destroy();
    }
    const closed = new Promise<void>((resolve) => {
      // An error only means that it is closed already.
      server.close(() => resolve());
    });
    const cut = setTimeout(() => server.closeAllConnections(), drainMs);
    await closed;
    clearTimeout(cut);
  }

  return { port, close };
}

const NO_SUCH_ADDRESS = ['HOST', 'this machine has no such address', 'set another host'] as const;

/** What is wrong with which setting, and the remedy, by Node's code. */
const UNUSABLE: Readonly<Record<string, readonly [setting: string, what: string, remedy: string]>> = {
  EADDRINUSE: ['PORT', 'the port is in use', 'stop what listens there, or set another port'],
  EACCES: ['PORT', 'not permitted', 'set a port of 1024 or more'],
  EADDRNOTAVAIL: NO_SUCH_ADDRESS,
  ENOTFOUND: NO_SUCH_ADDRESS,
  // An IPv6 address without the zone that it needs.
  EINVAL: NO_SUCH_ADDRESS,
};

function explain(error: NodeJS.ErrnoException, { host, port, settings = '' }: ListenOptions): Error {
  const known = UNUSABLE[error.code ?? ''];
  if (known === undefined) return error;
  const [setting, what, remedy] = known;
  return new UsageError(`${settings}${setting}: cannot listen on ${host}:${port}: ${what}`, remedy);
}

/** For valid HTTP that is no valid URL: a bad Host, or a backslash in the path. */
function answerBrokenRequest(error: unknown): Response {
  if (error instanceof RequestError)
    return problem(400, 'bad_request', 'The request cannot be read.', error.message);
  return problem(500, 'internal_error', 'Something went wrong here.');
}

/** HTTP/1.1 requires exactly one Host. Of two, Node would show only the first, and a proxy may have used the other. */
function isForOneHost({ rawHeaders, httpVersionMinor }: IncomingMessage): boolean {
  let hosts = 0;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index]!;
    if (name.length === 4 && name.toLowerCase() === 'host') hosts += 1;
  }
  return hosts === 1 || (hosts === 0 && httpVersionMinor === 0);
}

/** An unwanted body up to this size is read and dropped, so that its connection can be used again. */
const FORGOTTEN_BYTES = 65_536;
/** How long a sender that is still sending has to read its answer before its connection is cut. */
const LINGER_MS = 500;

/**
 * For a request that was answered before its whole body came. Node would go on reading for as long as a request may take. So
 * unless the rest is small, nothing more is read, and the connection ends after the answer.
 */
function leaveUnread(request: IncomingMessage, response: ServerResponse): void {
  const { complete, headers, socket } = request;
  const declared = headers['content-length'];
  // A request without a body is complete only after the present read.
  if (complete || (declared ?? headers['transfer-encoding']) === undefined) return;
  if (declared !== undefined && Number(declared) <= FORGOTTEN_BYTES) {
    socket.resume();
    return;
  }
  stopReading(request);
  const end = () => {
    socket.end();
    setTimeout(() => socket.destroy(), LINGER_MS).unref();
  };
  if (response.writableFinished) end();
  else response.once('finish', end);
}

/** By Node's code. */
const CLIENT_ERRORS: Readonly<Record<string, readonly [status: number, code: string, title: string]>> = {
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'request_timeout', 'The request took too long.'],
  HPE_HEADER_OVERFLOW: [431, 'headers_too_large', 'The headers are too large.'],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: [413, 'too_large', 'The chunk extensions are too large.'],
};
const NOT_HTTP = [400, 'bad_request', 'The request is not HTTP.'] as const;

/** For requests that are not HTTP, too large or too slow. `last`: the response to the connection's newest request. */
function answerClientError(error: NodeJS.ErrnoException, socket: Socket, last: ServerResponse | null): void {
  // Another answer has begun, or must come first, and nothing may be written into it.
  const isAnswering = last !== null && !last.writableFinished && (last.headersSent || last.socket === null);
  if (error.code === 'ECONNRESET' || !socket.writable || isAnswering) {
    socket.destroy();
    return;
  }
  const [status, code, title] = CLIENT_ERRORS[error.code ?? ''] ?? NOT_HTTP;
  const text = problemText(status, code, title);
  socket.write(
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nContent-Type: ${PROBLEM_CONTENT_TYPE}\r\n` +
      `Content-Length: ${Buffer.byteLength(text)}\r\nConnection: close\r\n\r\n${text}`,
  );
  socket.destroySoon();
}
