package hostsfile

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skein-project/skein/cluster"
)

// TestNamesFile writes the names of members, in any order and with a cluster
// name that is no host name, and never over somebody else's file.
func TestNamesFile(t *testing.T) {
	members := []cluster.Member{
		{Node: "n2", IP4: netip.MustParseAddr("10.86.0.2")},
		{Node: "n1", IP4: netip.MustParseAddr("10.86.0.1"), IP6: netip.MustParseAddr("fd00::1")},
	}
	file := filepath.Join(t.TempDir(), "hosts")
	for _, ms := range [][]cluster.Member{members, {members[1], members[0]}} {
		if err := Write(file, "My Lab\n10.0.0.1 evil", ms); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		const want = `# Hosts of cluster "My Lab\n10.0.0.1 evil", written by skein. Changes here are lost.
10.86.0.1 n1 n1.my-lab-10-0-0-1-evil.skein
fd00::1 n1 n1.my-lab-10-0-0-1-evil.skein
10.86.0.2 n2 n2.my-lab-10-0-0-1-evil.skein
`
		if string(text) != want {
			t.Errorf("names\n%s\nwant\n%s", text, want)
		}
	}
	if err := os.WriteFile(file, []byte("127.0.0.1 localhost\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Write(file, "lab", members); !errors.Is(err, ErrForeign) {
		t.Errorf("another's file: %v, want %v", err, ErrForeign)
	}
	// The same trouble reads the same, so that it is logged once.
	nowhere := filepath.Join(t.TempDir(), "no", "hosts")
	one, two := Write(nowhere, "lab", members), Write(nowhere, "lab", members)
	if one == nil || one.Error() != two.Error() || !strings.Contains(one.Error(), nowhere) {
		t.Errorf("no directory: %v, then %v", one, two)
	}
}
