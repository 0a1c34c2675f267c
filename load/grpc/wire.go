package grpc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"
)

// headSize is what stands before each message: whether it is compressed, and its length.
const headSize = 5

// head fills in that of the message which begins there.
func head(b []byte, begin int) []byte {
	binary.BigEndian.PutUint32(b[begin+1:], uint32(len(b)-begin-headSize)) //nolint:gosec // protobuf bounds a message to 2 GiB
	return b
}

// ErrFraming says that what came are no messages of gRPC.
var ErrFraming = errors.New("no messages of gRPC")

// Last finds the last of the messages that came, and how many there are; nil: none.
func Last(all []byte) (last []byte, n int, err error) {
	for len(all) > 0 {
		if len(all) < headSize {
			return nil, n, fmt.Errorf("%w: %d bytes at their end", ErrFraming, len(all))
		}
		size := uint64(binary.BigEndian.Uint32(all[1:]))
		switch {
		case all[0] != 0:
			return nil, n, fmt.Errorf("%w: one is compressed, which was not asked for", ErrFraming)
		case uint64(len(all)-headSize) < size:
			return nil, n, fmt.Errorf("%w: one of %d bytes ends after %d", ErrFraming, size, len(all)-headSize)
		}
		last, all = all[headSize:headSize+size:headSize+size], all[headSize+size:]
		n++
	}
	return last, n, nil
}

// Timeout is the header that tells the target how long an answer may take.
func Timeout(d time.Duration) string {
	return strconv.FormatInt(max(1, min(d.Milliseconds(), 99_999_999)), 10) + "m"
}

// Code is how a call ended.
type Code int

// codes are their names and the statuses of HTTP that they correspond to (google/rpc/code.proto).
var codes = [...]struct {
	name string
	http int
}{
	{"OK", 200},
	{"CANCELLED", 499},
	{"UNKNOWN", 500},
	{"INVALID_ARGUMENT", 400},
	{"DEADLINE_EXCEEDED", 504},
	{"NOT_FOUND", 404},
	{"ALREADY_EXISTS", 409},
	{"PERMISSION_DENIED", 403},
	{"RESOURCE_EXHAUSTED", 429},
	{"FAILED_PRECONDITION", 400},
	{"ABORTED", 409},
	{"OUT_OF_RANGE", 400},
	{"UNIMPLEMENTED", 501},
	{"INTERNAL", 500},
	{"UNAVAILABLE", 503},
	{"DATA_LOSS", 500},
	{"UNAUTHENTICATED", 401},
}

// String is the name of the code.
func (c Code) String() string {
	if c >= 0 && int(c) < len(codes) {
		return codes[c].name
	}
	return fmt.Sprintf("code %d", int(c))
}

// HTTP is the status of HTTP that a code corresponds to; 500 for one that is not known.
func (c Code) HTTP() int {
	if c >= 0 && int(c) < len(codes) {
		return codes[c].http
	}
	return 500
}

// ErrStatus says that an answer does not tell how the call ended.
var ErrStatus = errors.New("no status of gRPC")

// Fields of the trailers of an answer.
const (
	StatusField  = "Grpc-Status"
	MessageField = "Grpc-Message"
)

// Status reads from the fields of an answer how the call ended, and why.
func Status(status, message string) (c Code, why string, err error) {
	n, err := strconv.ParseUint(status, 10, 16)
	if err != nil {
		return 0, "", fmt.Errorf("%w: grpc-status is %.40q", ErrStatus, status)
	}
	if why, err = url.PathUnescape(message); err != nil {
		why = message // as it came
	}
	return Code(n), why, nil //nolint:gosec // 16 bits
}
