package cli

import (
	"bytes"
	"testing"

	"github.com/skein-project/skein/present"
)

// TestAbsentNumbers: what is not known is an empty cell of CSV and TSV, so that a column of
// numbers is one to every reader; other forms show a dash.
func TestAbsentNumbers(t *testing.T) {
	table := present.NewTable("NODE", "SEEN")
	table.Add("n1", "0.4")
	table.Add("n2", present.Unknown)
	table.Add("-3", "-")
	var csv, tsv bytes.Buffer
	WriteCSV(&csv, table)
	WriteTSV(&tsv, table)
	if want := "NODE,SEEN\nn1,0.4\nn2,\n-3,\n"; csv.String() != want {
		t.Errorf("csv %q, want %q", csv.String(), want)
	}
	if want := "NODE\tSEEN\nn1\t0.4\nn2\t\n-3\t\n"; tsv.String() != want {
		t.Errorf("tsv %q, want %q", tsv.String(), want)
	}
	if table.Rows[1][1].Text != present.Unknown {
		t.Error("the table was changed")
	}
}
