package index

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"sort"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog/disk"
	"github.com/skein-project/skein/eventlog/store"
)

// The file of a segment, numbers in big endian:
//
//	"skidx2\r\n", key of the segment, number of blocks u32, of entries u32
//	each block: seq less the segment's first u32, offset u32
//	CRC-32C of all of this
//	pages of 341 entries {hash u64, block u32} in order, each with its CRC-32C
//
// A look-up reads the beginning and a few pages, and checks what it reads.
const (
	magic      = "skidx2\r\n" // 1 did not know runs
	headLen    = len(magic) + sha256.Size + 8
	blockLen   = 8
	entryLen   = 12
	pageLen    = 341
	sumLen     = 4
	maxBlocks  = 1 << 16
	maxEntries = maxBlocks * (maxNames + 1)
)

// errDamaged says that a file is none of ours, or not of the segment.
var errDamaged = errors.New("damaged index")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func appendSum(b []byte, from int) []byte {
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b[from:], castagnoli))
}

// key names the very events of a segment.
func key(clusterID string, s store.Segment) cluster.Hash {
	return sha256.Sum256(fmt.Appendf(nil, "%q %s %d %d %s %s", clusterID, s.Source, s.First, s.Last, s.Prev, s.Hash))
}

// encode makes the file of a table that is complete.
func (t *table) encode(k cluster.Hash) ([]byte, error) {
	if n := len(t.blocks); n > maxBlocks || len(t.entries) > maxEntries || t.blocks[n-1].seq-t.first > 1<<32-1 || t.blocks[n-1].off > 1<<32-1 {
		return nil, fmt.Errorf("index: segment of %d blocks, at most %d are possible", n, maxBlocks)
	}
	slices.SortFunc(t.entries, entry.compare)
	b := append([]byte(magic), k[:]...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(t.blocks)))  //nolint:gosec // bounded above
	b = binary.BigEndian.AppendUint32(b, uint32(len(t.entries))) //nolint:gosec // bounded above
	for _, x := range t.blocks {
		b = binary.BigEndian.AppendUint32(b, uint32(x.seq-t.first)) //nolint:gosec // bounded above
		b = binary.BigEndian.AppendUint32(b, uint32(x.off))         //nolint:gosec // bounded above
	}
	b = appendSum(b, 0)
	for page := range slices.Chunk(t.entries, pageLen) {
		from := len(b)
		for _, e := range page {
			b = binary.BigEndian.AppendUint64(b, e.hash)
			b = binary.BigEndian.AppendUint32(b, e.block)
		}
		b = appendSum(b, from)
	}
	return b, nil
}

// opened is a file whose beginning was read.
type opened struct {
	r       io.ReaderAt
	blocks  []block
	entries int
	pages   int64 // where they begin

	page int // that was read last, -1: none
	buf  []byte
}

// open reads the beginning of a file of size bytes, which must be of s.
func open(r io.ReaderAt, size int64, k cluster.Hash, s store.Segment) (*opened, error) {
	head, err := disk.ReadRange(r, 0, min(size, int64(headLen)))
	if err != nil {
		return nil, err
	}
	if len(head) < headLen || !bytes.HasPrefix(head, []byte(magic)) || !bytes.Equal(head[len(magic):headLen-8], k[:]) {
		return nil, fmt.Errorf("%w: not of this segment", errDamaged)
	}
	blocks, entries := binary.BigEndian.Uint32(head[headLen-8:]), binary.BigEndian.Uint32(head[headLen-4:])
	if blocks == 0 || blocks > maxBlocks || entries > maxEntries {
		return nil, fmt.Errorf("%w: %d blocks, %d entries", errDamaged, blocks, entries)
	}
	o := &opened{r: r, entries: int(entries), page: -1, pages: int64(headLen) + int64(blocks)*blockLen + sumLen}
	pages := (int64(entries) + pageLen - 1) / pageLen
	if want := o.pages + int64(entries)*entryLen + pages*sumLen; size != want {
		return nil, fmt.Errorf("%w: %d bytes, want %d", errDamaged, size, want)
	}
	rest, err := disk.ReadRange(r, int64(headLen), o.pages)
	if err != nil {
		return nil, err
	}
	all := append(head, rest...)
	if int64(len(all)) != o.pages || !bytes.Equal(appendSum(all[:len(all)-sumLen:len(all)-sumLen], 0), all) {
		return nil, fmt.Errorf("%w: wrong checksum at the beginning", errDamaged)
	}
	for b := rest[:len(rest)-sumLen]; len(b) > 0; b = b[blockLen:] {
		x := block{seq: s.First + uint64(binary.BigEndian.Uint32(b)), off: int64(binary.BigEndian.Uint32(b[4:]))}
		n := len(o.blocks)
		if n == 0 && x.seq != s.First || n > 0 && (x.seq <= o.blocks[n-1].seq || x.off <= o.blocks[n-1].off) || x.seq > s.Last || x.off >= s.Size {
			return nil, fmt.Errorf("%w: block %d", errDamaged, n)
		}
		o.blocks = append(o.blocks, x)
	}
	return o, nil
}

// find implements finder.
func (o *opened) find(h uint64) ([]uint32, error) {
	list, err := o.equal(everything, nil)
	if err == nil {
		list, err = o.equal(h, list)
	}
	slices.Sort(list)
	return slices.Compact(list), err
}

// equal appends the blocks that have exactly this hash.
func (o *opened) equal(h uint64, list []uint32) ([]uint32, error) {
	var failed error
	i := sort.Search(o.entries, func(i int) bool {
		e, err := o.entry(i)
		failed = errors.Join(failed, err)
		return failed != nil || e.hash >= h
	})
	for ; i < o.entries && failed == nil; i++ {
		e, err := o.entry(i)
		if err != nil {
			return nil, err
		}
		if e.hash != h {
			break
		}
		list = append(list, e.block)
	}
	return list, failed
}

func (o *opened) entry(i int) (entry, error) {
	if p := i / pageLen; p != o.page {
		from := o.pages + int64(p)*(pageLen*entryLen+sumLen)
		n := min(pageLen, o.entries-p*pageLen)*entryLen + sumLen
		b, err := disk.ReadRange(o.r, from, from+int64(n))
		if err != nil {
			return entry{}, err
		}
		if len(b) != n || !bytes.Equal(appendSum(b[:n-sumLen:n-sumLen], 0), b) {
			return entry{}, fmt.Errorf("%w: wrong checksum of page %d", errDamaged, p)
		}
		o.page, o.buf = p, b
	}
	b := o.buf[i%pageLen*entryLen:]
	e := entry{hash: binary.BigEndian.Uint64(b), block: binary.BigEndian.Uint32(b[8:])}
	if int(e.block) >= len(o.blocks) {
		return e, fmt.Errorf("%w: block %d of %d", errDamaged, e.block, len(o.blocks))
	}
	return e, nil
}
