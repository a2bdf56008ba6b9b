import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { getRequestListener, RequestError } from '@hono/node-server';
import { type Addresses, networkOf } from '../platform/addresses.ts';
import { UsageError } from '../platform/errors.ts';
import { PROBLEM_CONTENT_TYPE, problem, problemText } from '../platform/problem.ts';
import {
  type ConnectionLimits,
  createConnections,
  currentResponse,
  dropPiece,
  MAX_CONNECTIONS_PER_ADDRESS,
} from './connections.ts';
import { createTurns } from './turns.ts';

export interface ServerLimits extends ConnectionLimits {
  headersTimeoutMs: number;
  requestTimeoutMs: number;
  connectionsCheckMs: number;
  maxHeaderBytes: number;
}

export const SERVER_LIMITS: ServerLimits = {
  /** Headers come in a few packets. The adapter alone would wait 89 s for them. */
  headersTimeoutMs: 10_000,
  /** For the whole request with its body. A sender gives up after 15 s. */
  requestTimeoutMs: 15_000,
  /** How often the two above and strangers' idle connections are checked. */
  connectionsCheckMs: 2_000,
  /** Common proxies keep an idle connection for 60 s. They must close first, so that no request is lost. */
  keepAliveTimeoutMs: 75_000,
  /** The same for a connection that has proven no secret: enough for the next request of a page or a probe. */
  strangerKeepAliveMs: 5_000,
  /** Enough for a signature header of 1 KiB and the headers of a chain of proxies. */
  maxHeaderBytes: 16_384,
  /** A connection costs a file descriptor, of which many systems allow 1,024, and at worst a body in memory. */
  maxConnections: 900,
  maxConnectionsPerAddress: MAX_CONNECTIONS_PER_ADDRESS,
};

/**
 * Connections that the system queues until they are accepted (the system may have a lower limit). When the queue is full, a new
 * client gets no answer and tries again after a second. With Node's default of 511 a thousand strangers caused that.
 */
const BACKLOG = 4_096;

/**
 * The most bytes of all answers of a listener that clients have not read yet. A page of the API has megabytes. The small answers
 * to deliveries are not counted, because remembering each of them made a delivery cost a third more.
 */
const UNREAD_BYTES = 67_108_864;

export interface ListenOptions {
  /** Of a Hono app. */
  fetch: (request: Request, env: object) => Response | Promise<Response>;
  host: string;
  /** 0: any free port. */
  port: number;
  /**
   * Requests that can wait: at most one of them begins in a turn of the event loop, after all other work. Their bodies are small
   * and must have a Content-Length; chunked ones are answered 411. Their answers may be large, and together have the limit
   * UNREAD_BYTES. Default: every request begins at once, before its body has arrived, and may be chunked.
   */
  canWait?: (request: IncomingMessage) => boolean;
  /** The prefix of the listener's settings, for errors: `OPS_`. Default: none. */
  settings?: string;
  /** Knows the trusted proxies. Default: there are none. */
  addresses?: Pick<Addresses, 'isProxy'>;
  /** Default: SERVER_LIMITS. */
  limits?: Partial<ServerLimits>;
}

export interface Listener {
  port: number;
  /** Accepts no more connections, lets requests finish, and cuts the rest after `drainMs`. Resolves when all connections are closed. */
  close(drainMs: number): Promise<void>;
}

/** Starts an HTTP server with every limit set. Rejects with UsageError if it cannot listen on the address. */
export async function listen(options: ListenOptions): Promise<Listener> {
  const handle = getRequestListener(options.fetch as Parameters<typeof getRequestListener>[0], {
    hostname: options.host.includes(':') ? `[${options.host}]` : options.host,
    errorHandler: answerBrokenRequest,
    // It would read and discard up to 64 MiB of a body. `leaveUnread` does not.
    autoCleanupIncoming: false,
  });
  const limits = { ...SERVER_LIMITS, ...options.limits };
  let closing = false;
  const turns = createTurns();
  const connections = createConnections(limits, options.addresses?.isProxy ?? (() => false));
  const unread = createUnread();
  const onRequest = (request: IncomingMessage, response: ServerResponse) => {
    if (!connections.used(request, response)) return;
    if (closing) response.shouldKeepAlive = false;
    if (!isForOneHost(request)) {
      refuse(request, response, 400, 'bad_request', 'The request must name one host.');
      return;
    }
    const begin = async () => {
      // Answers every failure, and never rejects.
      await handle(request, response);
      leaveUnread(request, response);
    };
    const beginCounted = () => {
      unread.begun(response);
      void begin().then(() => unread.written(response));
    };
    if (options.canWait?.(request) !== true) void begin();
    else if (request.headers['transfer-encoding'] !== undefined)
      refuse(request, response, 411, 'length_required', 'The request must tell the length of its body.');
    else turns.begin(networkOf(request.socket.remoteAddress ?? ''), beginCounted);
  };
  const server = createServer(
    {
      headersTimeout: limits.headersTimeoutMs,
      requestTimeout: limits.requestTimeoutMs,
      connectionsCheckingInterval: limits.connectionsCheckMs,
      keepAliveTimeout: limits.keepAliveTimeoutMs,
      maxHeaderSize: limits.maxHeaderBytes,
      // Checked by `isForOneHost`, because Node's answer would have no body.
      requireHostHeader: false,
    },
    onRequest,
  );
  // A client that has closed its sending half still gets its answer. By default Node would close the connection.
  (server as Server & { httpAllowHalfOpen: boolean }).httpAllowHalfOpen = true;
  // Node would answer 417 by itself, outside all limits. An unknown expectation may be ignored (RFC 9110).
  server.on('checkExpectation', onRequest);
  server.on('clientError', answerClientError);
  server.on('connection', (socket) => {
    turns.accepted(networkOf(socket.remoteAddress ?? ''));
    connections.add(socket);
  });

  await startListening(server, options);
  const look = () => {
    connections.closeIdle();
    unread.look();
  };
  const looking = setInterval(look, limits.connectionsCheckMs).unref();
  const { port } = server.address() as AddressInfo;

  async function close(drainMs: number): Promise<void> {
    closing = true;
    for (const socket of connections.open()) {
      const response = currentResponse(socket);
      if (response !== undefined) response.shouldKeepAlive = false;
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
    clearInterval(looking);
  }

  return { port, close };
}

function startListening(server: Server, options: ListenOptions): Promise<void> {
  const { host, port } = options;
  return new Promise((resolve, reject) => {
    const fail = (error: NodeJS.ErrnoException) => reject(explain(error, options));
    server.once('error', fail);
    server.listen({ host, port, backlog: BACKLOG }, () => {
      server.off('error', fail);
      resolve();
    });
  });
}

function explain(error: NodeJS.ErrnoException, { host, port, settings = '' }: ListenOptions): Error {
  const where = `cannot listen on ${host}:${port}`;
  switch (error.code) {
    case 'EADDRINUSE':
      return new UsageError(
        `${settings}PORT: ${where}: the port is in use`,
        'stop what listens there, or set another port',
      );
    case 'EADDRNOTAVAIL':
    // An IPv6 address without the zone that it needs.
    case 'EINVAL':
    case 'ENOTFOUND':
      return new UsageError(
        `${settings}HOST: ${where}: this machine has no such address`,
        'set another host',
      );
    case 'EACCES':
      return new UsageError(`${settings}PORT: ${where}: not permitted`, 'set a port of 1024 or more');
    default:
      return error;
  }
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
 * For a request that was answered before its whole body came. Node would go on reading for as long as a request may take, and
 * one-byte chunks cost as much as requests. So unless the rest is small, nothing more is read, and the connection ends after the
 * answer. Later bytes are never parsed as a request.
 */
function leaveUnread(request: IncomingMessage, response: ServerResponse): void {
  const { socket, headers } = request;
  const declared = headers['content-length'];
  // A request without a body is complete only after the present read.
  if (request.complete || (declared ?? headers['transfer-encoding']) === undefined) return;
  if (declared !== undefined && Number(declared) <= FORGOTTEN_BYTES) {
    socket.resume();
    return;
  }
  // Node takes this for reading. Otherwise it would start to read at the end of the answer.
  request.read(0);
  dropPiece(socket);
  socket.pause();
  const end = () => {
    socket.end();
    setTimeout(() => socket.destroy(), LINGER_MS).unref();
  };
  if (response.writableFinished) end();
  else response.once('finish', end);
}

/**
 * Answers that their clients have not read yet. When they hold too much memory, the oldest ones are given up with their
 * connections. `look` must be called every few seconds, for answers that are written in pieces.
 */
function createUnread() {
  // The oldest first.
  const responses = new Set<ServerResponse>();
  function look(): void {
    let newer = 0;
    for (const response of [...responses].reverse()) {
      const { socket } = response.req;
      const bytes = response.writableLength;
      if (socket.destroyed || response.writableFinished) responses.delete(response);
      // The newest is kept, however large it is.
      else if (bytes > 0 && newer > 0 && newer + bytes > UNREAD_BYTES) socket.destroy();
      else newer += bytes;
    }
  }
  return {
    look,
    begun: (response: ServerResponse) => responses.add(response),
    written(response: ServerResponse): void {
      if (response.writableLength === 0) responses.delete(response);
      else look();
    },
  };
}

function refuse(
  request: IncomingMessage,
  response: ServerResponse,
  status: number,
  code: string,
  title: string,
): void {
  const text = problemText(status, code, title);
  response.writeHead(status, {
    'content-type': PROBLEM_CONTENT_TYPE,
    'content-length': Buffer.byteLength(text),
  });
  response.end(text);
  leaveUnread(request, response);
}

/** For requests that are not HTTP, too large or too slow. They have no response object. */
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
