package segment

import (
	"io"

	"github.com/skein-project/skein/eventlog/disk"
	"github.com/skein-project/skein/eventlog/record"
)

// ReadHeader reads a segment's header, and where the first group begins.
func ReadHeader(f io.ReaderAt, size int64) (begin int64, h record.Header, err error) {
	b, err := disk.ReadRange(f, 0, min(size, headerRoom))
	if err != nil {
		return 0, h, err
	}
	if len(b) < len(record.Magic) || string(b[:len(record.Magic)]) != record.Magic {
		return 0, h, record.ErrCorrupt
	}
	fr, n, err := record.ParseFrame(b[len(record.Magic):])
	if err != nil {
		return 0, h, err
	}
	h, err = record.DecodeHeader(fr.Payload)
	return int64(len(record.Magic) + n), h, err
}

const (
	// headerRoom is more than any header takes.
	headerRoom = 1024
	// sealLen is the length of a seal's frame.
	sealLen = record.FrameHeaderLen + 1 + 8 + 32
)

// ReadSeal reads the frame at the very end of a sealed segment.
func ReadSeal(f io.ReaderAt, size int64) (record.Seal, error) {
	if size < sealLen {
		return record.Seal{}, record.ErrTorn
	}
	b, err := disk.ReadRange(f, size-sealLen, size)
	if err != nil {
		return record.Seal{}, err
	}
	fr, n, err := record.ParseFrame(b)
	if err != nil {
		return record.Seal{}, err
	}
	if fr.Type != record.TypeSeal || n != sealLen {
		return record.Seal{}, record.ErrCorrupt
	}
	return record.DecodeSeal(fr.Payload)
}
