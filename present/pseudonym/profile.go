package pseudonym

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// maxProfile bounds a profile when it is unpacked.
const maxProfile = 64 << 20

// Of a profile.proto: the table of strings, which all else names by number.
const stringTable = 6

// errProfile says that something is no profile.
var errProfile = errors.New("not the form of a profile")

// Profile returns a profile of the runtime's (profile.proto, packed by gzip) without names.
func (n *Names) Profile(packed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("unpack profile: %w", err)
	}
	raw, err := io.ReadAll(io.LimitReader(r, maxProfile+1))
	if err != nil || len(raw) > maxProfile {
		return nil, fmt.Errorf("unpack profile: %w", errors.Join(err, errProfile))
	}
	out := make([]byte, 0, len(raw)+len(raw)/8)
	for len(raw) > 0 {
		tag, size := binary.Uvarint(raw)
		if size <= 0 {
			return nil, errProfile
		}
		field := raw[:size]
		raw = raw[size:]
		switch tag & 7 {
		case 0: // a number
			if _, size = binary.Uvarint(raw); size <= 0 {
				return nil, errProfile
			}
			out, raw = append(append(out, field...), raw[:size]...), raw[size:]
		case 2: // bytes
			length, size := binary.Uvarint(raw)
			if size <= 0 || length > uint64(len(raw)-size) {
				return nil, errProfile
			}
			body := raw[size : size+int(length)] //nolint:gosec // it fits
			raw = raw[size+len(body):]
			if tag>>3 == stringTable {
				body = n.Text(body)
			}
			out = append(binary.AppendUvarint(append(out, field...), uint64(len(body))), body...)
		default:
			return nil, errProfile
		}
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(out); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
