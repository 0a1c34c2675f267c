package transport

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
)

// WriteFrame writes v as one length-prefixed JSON value.
func WriteFrame(w io.Writer, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode frame: %w", err)
	}
	b := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(body)), uint32(len(body)))
	if _, err := w.Write(append(b, body...)); err != nil {
		return fmt.Errorf("write frame: %w", err)
	}
	return nil
}

// ReadFrame reads what WriteFrame wrote, if it is at most limit bytes long.
// Memory grows with what arrives, not with what the length claims.
func ReadFrame(r io.Reader, limit int, v any) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return fmt.Errorf("read frame: %w", err)
	}
	n := int64(binary.BigEndian.Uint32(head[:]))
	if n > int64(limit) {
		return fmt.Errorf("read frame: %d bytes, at most %d", n, limit)
	}
	body, err := io.ReadAll(io.LimitReader(r, n))
	if err != nil {
		return fmt.Errorf("read frame: %w", err)
	}
	if int64(len(body)) < n {
		return fmt.Errorf("read frame: %w", io.ErrUnexpectedEOF)
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("decode frame: %w", err)
	}
	return nil
}
