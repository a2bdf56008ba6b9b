import { connect, type Socket } from 'node:net';
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
 *
 * Plain sockets and prepared bytes: a client on the machine's second core must not be what is measured, and
 * fetch costs more per request than the receiver does.
 */
export async function sendLoad(options: LoadOptions): Promise<void> {
  await Promise.all(Array.from({ length: options.connections }, () => runConnection(options)));
}

function runConnection({ port, deliveries, onAnswer }: LoadOptions): Promise<void> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true });
    let current: { delivery: SignedDelivery; sentAt: number } | null = null;
    let received = '';
    const send = () => {
      const next = deliveries.next();
      if (next.done) {
        socket.end();
        return;
      }
      current = { delivery: next.value, sentAt: performance.now() };
      socket.write(requestBytes(next.value));
    };
    socket.on('connect', send);
    socket.setEncoding('latin1');
    socket.on('data', (text: string) => {
      received += text;
      const status = completeAnswer(received);
      if (status === null || current === null) return;
      const { delivery, sentAt } = current;
      const closes = /\r\nconnection: close\r\n/i.test(received);
      current = null;
      received = '';
      onAnswer({ delivery, status, milliseconds: performance.now() - sentAt });
      if (closes) socket.end();
      else send();
    });
    ended(socket, () => {
      if (current !== null) {
        const { delivery, sentAt } = current;
        onAnswer({ delivery, status: null, milliseconds: performance.now() - sentAt });
      }
      resolve();
    });
  });
}

function ended(socket: Socket, then: () => void): void {
  // An error is always followed by the close; that it came is all there is to know.
  socket.on('error', () => undefined);
  socket.once('close', then);
}

/** The status of an answer that is there whole, else null. Both servers give a Content-Length or have no body. */
function completeAnswer(text: string): number | null {
  const headEnd = text.indexOf('\r\n\r\n');
  if (headEnd === -1) return null;
  const length = Number(/\r\ncontent-length: (\d+)/i.exec(text.slice(0, headEnd))?.[1] ?? 0);
  return text.length >= headEnd + 4 + length ? Number(text.slice(9, 12)) : null;
}
