package browser

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestExplain: the help explains what `skein explain` does, which comes when it is asked
// for; a word that nothing is called by is told.
func TestExplain(t *testing.T) {
	needBrowser(t)
	p := open(t, newDouble(t, 3).link)
	p.says("holds the lease")
	p.until("nothing of it was loaded", `!performance.getEntriesByType("resource").some((e) => e.name.includes("/topics"))`)
	p.do(chromedp.KeyEvent("?"))
	p.until("what there is", `document.querySelectorAll("#topics option").length > 300`)
	explain := func(word string) {
		t.Helper()
		p.run(`document.querySelector("#topic").select(), 1`)
		p.do(chromedp.SendKeys("#topic", word), chromedp.KeyEvent("\r"))
	}
	explain("voters")
	p.until("both that have the name, the table of one", `document.querySelectorAll("section.topic").length === 2 && document.querySelector("section.topic td code")`)
	p.says("3 voters tolerate the loss of one")
	p.accessible([]string{""}, look{"light", 1280}, look{"dark", 360})
	for word, says := range map[string]string{"NoHolder": "SkeinNoHolder alert", "worker_drained": `{"drained":true`, "SKEIN_STATUS_UI": "status.ui key", "130": "interrupted."} {
		explain(word)
		p.until(word, fmt.Sprintf(`document.querySelector("section.topic")?.textContent.includes(%q)`, says))
	}
	explain("<b>nothing</b>")
	p.says(`nothing is called "<b>nothing</b>"`)
	p.until("and nothing else is shown", `!document.querySelector("section.topic") && !document.querySelector("dialog b")`)
}
