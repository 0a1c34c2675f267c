package daemon

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/internal/durable"
)

// namesMode lets every program of the machine read the names.
const namesMode = 0o644

// namesOf is the members' names and addresses in the form of /etc/hosts, the
// same bytes for the same members.
func namesOf(clusterName string, members []cluster.Member) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Hosts of cluster %s, written by skein. Changes here are lost.\n", clusterName)
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

// writeNames makes file hold the names of the members. It leaves a file alone
// that does so already.
func writeNames(file, clusterName string, members []cluster.Member) error {
	text := namesOf(clusterName, members)
	if old, err := os.ReadFile(file); err == nil && bytes.Equal(old, text) {
		return nil
	}
	if err := durable.WriteFile(file, text, namesMode); err != nil {
		return fmt.Errorf("names file: %w", err)
	}
	return nil
}
