package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/internal/durable"
)

// namesMode lets every program of the machine read the names.
const namesMode = 0o644

// namesHead begins a names file; one that begins otherwise is not replaced.
const namesHead = "# Hosts of cluster "

// errNotNames refuses to overwrite a file that somebody else wrote.
var errNotNames = errors.New("the file is there and skein did not write it")

// namesOf is the members' names and addresses in the form of /etc/hosts, the
// same bytes for the same members.
func namesOf(clusterName string, members []cluster.Member) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s%q, written by skein. Changes here are lost.\n", namesHead, clusterName)
	domain := hostLabel(clusterName) + ".skein"
	sorted := slices.SortedFunc(slices.Values(members), func(x, y cluster.Member) int {
		return strings.Compare(string(x.Node), string(y.Node))
	})
	for _, m := range sorted {
		for _, a := range []netip.Addr{m.IP4, m.IP6} {
			if a.IsValid() {
				fmt.Fprintf(&b, "%s %s %s.%s\n", a, m.Node, m.Node, domain)
			}
		}
	}
	return b.Bytes()
}

// hostLabel makes a host name's label of a cluster's name, which may be any
// text: what cannot stand in a label becomes '-'.
func hostLabel(name string) string {
	label := strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, name), "-")
	if label = label[:min(len(label), 63)]; label == "" {
		return "cluster"
	}
	return strings.TrimRight(label, "-")
}

// maxNames bounds what is read of a names file to see whether it changed.
const maxNames = 1 << 20

// writeNames makes file hold the names of the members. It leaves a file alone
// that does so already, and refuses one that is something else.
func writeNames(file, clusterName string, members []cluster.Member) error {
	text := namesOf(clusterName, members)
	old, err := readNames(file)
	switch {
	case err != nil:
		return fmt.Errorf("names file %s: %w", file, err)
	case bytes.Equal(old, text):
		return nil
	case !ownNames(old):
		return fmt.Errorf("names file %s: %w", file, errNotNames)
	}
	err = durable.WriteFile(file, text, namesMode)
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err // the path is a temporary one, another each time
	}
	if err != nil {
		return fmt.Errorf("names file %s: %w", file, err)
	}
	return nil
}

// ownNames reports whether skein wrote text, or nobody.
func ownNames(text []byte) bool { return len(text) == 0 || bytes.HasPrefix(text, []byte(namesHead)) }

func readNames(file string) ([]byte, error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxNames))
}
