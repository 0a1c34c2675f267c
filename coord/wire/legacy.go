package wire

import (
	"encoding/json"
	"fmt"
)

// ParseLegacy reads a heartbeat of protocol version 1: {node_id, timestamp,
// type, payload}, unsigned. Nothing proves who sent it, so that its payload is
// not looked at: it can only say that some host seems to live. A message with
// any field of version 2 is none of these. The error is an *Error with
// ReasonSize, ReasonParse, ReasonVersion or ReasonUnknownType.
func ParseLegacy(data []byte) (Header, error) {
	if len(data) == 0 || len(data) > MaxDatagram {
		return Header{}, Refuse(ReasonSize, "%d bytes, want 1-%d", len(data), MaxDatagram)
	}
	// What version 1 has no place for stands in for itself: validate checks
	// the rest.
	h := Header{To: Everyone, Boot: 1, Seq: 1}
	later, payload := false, false
	err := fields(data, MaxDepth, func(name []byte, value json.RawMessage) (err error) {
		switch string(name) {
		case "node_id", "timestamp", "type":
			err = h.decode(name, value)
		case "payload":
			payload = len(value) > 0 && value[0] == '{'
		case "v", "boot", "seq", "to", "sig":
			later = true
		}
		if err != nil {
			return fmt.Errorf("field %s: %w", name, err)
		}
		return nil
	})
	switch {
	case err != nil:
		return Header{}, Refuse(ReasonParse, "%v", err)
	case later:
		return Header{}, Refuse(ReasonVersion, "not of version 1")
	case !payload:
		return Header{}, Refuse(ReasonParse, "payload is not an object")
	}
	if err := h.validate(); err != nil {
		return Header{}, err
	}
	if h.Type != TypeHeartbeat {
		return Header{}, Refuse(ReasonUnknownType, "unsigned %s", h.Type)
	}
	return h, nil
}
