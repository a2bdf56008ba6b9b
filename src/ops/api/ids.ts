/**
 * An id as one segment of a path, percent-encoded. An empty text, `.` and `..` cannot be segments, not even encoded. They are
 * written as `=` and their base64url, and so is every id that begins with `=`.
 */
export function idInPath(id: string): string {
  return isEscaped(id) ? `=${Buffer.from(id).toString('base64url')}` : encodeURIComponent(id);
}

/** The id in a segment that was percent-decoded. */
export function idFromPath(segment: string): string {
  if (!segment.startsWith('=')) return segment;
  const id = Buffer.from(segment.slice(1), 'base64url').toString();
  return isEscaped(id) && idInPath(id) === segment ? id : segment;
}

const isEscaped = (id: string) => id === '' || id === '.' || id === '..' || id.startsWith('=');
