import { connect } from 'node:net';
import { requestBytes, type SignedDelivery } from './deliveries.ts';

export interface Answer {
  delivery: SignedDelivery;
  /** The HTTP status; null when the connection ended without an answer. */
  status: number | null;
  milliseconds: number;
}

export interface LoadOptions {
  port: number;
  connections: number;
  deliveries: Iterator<SignedDelivery>;
  onAnswer: (answer: Answer) => void;
}

/**
 * Sends each delivery once over keep-alive connections, each of which waits for its answer before it sends the next.
 * A connection that ends is not opened again. Resolves when the deliveries or the connections have run out.
 */
export async function sendLoad({ port, connections, deliveries, onAnswer }: LoadOptions): Promise<void> {
  const onFree = (connection: Connection) => {
    const next = deliveries.next();
    if (next.done) connection.end();
    else connection.send(next.value, performance.now());
  };
  const all = Array.from({ length: connections }, () => openConnection({ port, onFree, onAnswer }));
  await Promise.all(all.map(({ ended }) => ended));
}

export interface Connection {
  /** Once it is free: the answer counts from `dueAt` on. */
  send(delivery: SignedDelivery, dueAt: number): void;
  end(): void;
  ended: Promise<void>;
}

/**
 * Plain sockets and prepared bytes: a client on the machine's second core must not be what is measured, and
 * fetch costs more per request than the receiver does.
 */
export function openConnection({
  port,
  onFree,
  onAnswer,
}: Pick<LoadOptions, 'port' | 'onAnswer'> & { onFree: (connection: Connection) => void }): Connection {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true });
  const ended = Promise.withResolvers<void>();
  let current: { delivery: SignedDelivery; dueAt: number } | null = null;
  let received = '';
  const connection: Connection = {
    send(delivery, dueAt) {
      current = { delivery, dueAt };
      socket.write(requestBytes(delivery));
    },
    end: () => void socket.end(),
    ended: ended.promise,
  };
  const answered = (status: number | null) => {
    if (current === null) return;
    const { delivery, dueAt } = current;
    current = null;
    received = '';
    onAnswer({ delivery, status, milliseconds: performance.now() - dueAt });
  };
  socket.on('connect', () => onFree(connection));
  socket.setEncoding('latin1');
  socket.on('data', (text: string) => {
    received += text;
    const status = completeAnswer(received);
    if (status === null || current === null) return;
    const closes = /\r\nconnection: close\r\n/i.test(received);
    answered(status);
    if (closes) socket.end();
    else onFree(connection);
  });
  // An error is always followed by the close; that it came is all there is to know.
  socket.on('error', () => undefined);
  socket.once('close', () => {
    answered(null);
    ended.resolve();
  });
  return connection;
}

/** The status of an answer that is there whole, else null. Both servers give a Content-Length or have no body. */
function completeAnswer(text: string): number | null {
  const headEnd = text.indexOf('\r\n\r\n');
  if (headEnd === -1) return null;
  const length = Number(/\r\ncontent-length: (\d+)/i.exec(text.slice(0, headEnd))?.[1] ?? 0);
  return text.length >= headEnd + 4 + length ? Number(text.slice(9, 12)) : null;
}
