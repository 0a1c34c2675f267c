package durable

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// File is one small file of a state directory, replaced as a whole and checked
// when it is read. Its last line is a checksum over its name and what is above, so
// that neither damage nor another file in its place is taken for what was written.
// A file without such a line was written by a release that had none, and is read as
// it is.
type File struct {
	Name string // below the directory
	What string // it is, for people
	// Secret says that nobody else may see the content. No error quotes any.
	Secret bool
	Limit  int64 // of bytes that are read; 0: maxContent
	// Back says where a damaged or missing one comes back from, Next what to do; both
	// are sentences without a full stop. Without Next the daemon goes on by itself.
	Back, Next string
}

// maxContent bounds what is read of a file.
const maxContent = 16 << 20

// sealMark begins the last line.
const sealMark = "# sha256 "

// DamagedError says that a file is not what was written, or is gone where it must
// have been. Nothing was changed.
type DamagedError struct {
	File   *File
	Path   string
	Reason string
}

// Error implements error.
func (e *DamagedError) Error() string {
	text := fmt.Sprintf("%s, %s, is %s", e.Path, e.File.What, e.Reason)
	if e.File.Back != "" {
		text += ": " + e.File.Back
	}
	return text
}

// Hint returns what to do next.
func (e *DamagedError) Hint() string { return e.File.Next }

// Final reports that the next start would fail in the same way.
func (e *DamagedError) Final() bool { return e.File.Next != "" }

// Path is where the file is in a directory.
func (f *File) Path(dir string) string { return filepath.Join(dir, f.Name) }

// Damaged is the error for a file whose content cannot be what was written.
func (f *File) Damaged(dir, format string, args ...any) error {
	return &DamagedError{File: f, Path: f.Path(dir), Reason: "damaged (" + fmt.Sprintf(format, args...) + ")"}
}

// Missing is the error for a file that must have been there.
func (f *File) Missing(dir string) error {
	return &DamagedError{File: f, Path: f.Path(dir), Reason: "missing"}
}

// IsDamaged reports whether err says that a file is damaged or missing.
func IsDamaged(err error) bool {
	_, ok := errors.AsType[*DamagedError](err)
	return ok
}

// Write replaces the file; data ends with a newline, or gets one.
func (f *File) Write(dir string, data []byte) error {
	return WriteFile(f.Path(dir), f.seal(data), 0o600)
}

// seal returns data with its checksum.
func (f *File) seal(data []byte) []byte {
	out := bytes.Clone(data)
	if !bytes.HasSuffix(out, []byte("\n")) {
		out = append(out, '\n')
	}
	return append(out, sealMark+f.sum(out)+"\n"...)
}

func (f *File) sum(data []byte) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n", f.Name)
	h.Write(data)
	return hex.EncodeToString(h.Sum(nil))
}

// Read returns what Write wrote, and whether it had a checksum. The error wraps
// fs.ErrNotExist, or is a *DamagedError, or says why the file cannot be read.
func (f *File) Read(dir string) (data []byte, sealed bool, err error) {
	raw, err := f.readAll(dir)
	if err != nil {
		return nil, false, err
	}
	at := 0
	if !bytes.HasPrefix(raw, []byte(sealMark)) {
		at = bytes.LastIndex(raw, []byte("\n"+sealMark)) + 1
		if at == 0 {
			return raw, false, nil
		}
	}
	data = raw[:at]
	if string(raw[at:]) != sealMark+f.sum(data)+"\n" {
		return nil, true, f.Damaged(dir, "its checksum does not match")
	}
	return data, true, nil
}

func (f *File) readAll(dir string) ([]byte, error) {
	file, err := os.Open(f.Path(dir))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", f.What, err)
	}
	defer file.Close()
	limit := f.Limit
	if limit == 0 {
		limit = maxContent
	}
	raw, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", f.What, err)
	}
	if int64(len(raw)) > limit {
		return nil, f.Damaged(dir, "above %d bytes", limit)
	}
	return raw, nil
}

// WriteJSON replaces the file by the JSON form of v.
func (f *File) WriteJSON(dir string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", f.What, err)
	}
	return f.Write(dir, b)
}

// ReadJSON decodes what WriteJSON wrote into v. Content that cannot be decoded is
// damage, and told by its place.
func (f *File) ReadJSON(dir string, v any) (sealed bool, err error) {
	data, sealed, err := f.Read(dir)
	if err != nil {
		return sealed, err
	}
	if err := json.Unmarshal(data, v); err != nil {
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			return sealed, f.Damaged(dir, "at byte %d", syntax.Offset)
		}
		return sealed, f.Damaged(dir, "not as it was written")
	}
	return sealed, nil
}

// Check reports a file that is damaged; one that is not there is none.
func (f *File) Check(dir string) error {
	_, _, err := f.Read(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// lineSum is how many hexadecimal digits of a line's checksum are kept.
const lineSum = 16

// SealLine returns a line of a journal with its checksum behind a space. The line
// has no newline.
func SealLine(line []byte) []byte {
	return append(append(bytes.Clone(line), ' '), sumOfLine(line)...)
}

func sumOfLine(line []byte) string {
	sum := sha256.Sum256(line)
	return hex.EncodeToString(sum[:lineSum/2])
}

// OpenLine returns what SealLine got; ok is false if the checksum does not match. A
// line whose last byte is one of end has none: it is of a release before.
func OpenLine(sealed []byte, end string) (line []byte, ok bool) {
	if n := len(sealed); n > 0 && strings.IndexByte(end, sealed[n-1]) >= 0 {
		return sealed, true
	}
	at := len(sealed) - lineSum - 1
	if at < 0 || sealed[at] != ' ' || string(sealed[at+1:]) != sumOfLine(sealed[:at]) {
		return nil, false
	}
	return sealed[:at], true
}
