/**
 * An id as one segment of a path, percent-encoded. Nothing, `.` and `..` are no segments, however they are encoded: they, and
 * what begins as their form does, go as `=` and their bytes in base64url.
 */
export function idInPath(id: string): string {
  return isNoSegment(id) ? `=${Buffer.from(id).toString('base64url')}` : encodeURIComponent(id);
}

/** The id in a segment that was percent-decoded. */
export function idFromPath(segment: string): string {
  if (!segment.startsWith('=')) return segment;
  const id = Buffer.from(segment.slice(1), 'base64url').toString();
  return isNoSegment(id) && idInPath(id) === segment ? id : segment;
}

const isNoSegment = (id: string) => id === '' || id === '.' || id === '..' || id.startsWith('=');
