"""Words that stand beside labels in brackets: what joins them, what names a source, what names a place in one.

They are read in English, German, French, Spanish, Portuguese, Italian, Dutch, Swedish, Danish, Norwegian, Finnish,
Polish, Czech, Russian, Ukrainian, Turkish, Hungarian, Greek, Hebrew, Arabic, Persian, Hindi, Vietnamese, Indonesian,
Thai, Chinese, Japanese and Korean. A word of one language that means something else in another is left out (Spanish *a*
is *to*, Czech *a* is *and*). A word that is missing makes a bracket unreadable, and nothing worse.
"""

from __future__ import annotations

from worker.core.text.normal_forms import normal_form


def _words(*lines: str) -> frozenset[str]:
    return frozenset(normal_form("NFC", word).casefold() for line in lines for word in line.split())


JOINING = _words(
    # and, both
    "and both und sowie et y e ed en och og ja oraz i és и та й і ve și και ו और तथा एवं và dan และ 和 与 與 及",
    "以及 跟 および 及び と 並びに ならびに 와 과 및 그리고 و",
    # see, also, compare
    "see also cf compare confer siehe vgl vergleiche auch voir aussi ver véase veáse vea también veja vide também",
    "vedi anche zie ook se också jf også katso ks myös zobacz zob patrz por także viz také srov см смотри также",
    "ср див також bkz ayrıca lásd ld βλ δείτε επίσης ראה ראו גם انظر راجع أيضا أيضًا ببینید نیز همچنین देखें",
    "देखिए भी xem lihat juga ดู 见 見 参见 參見 请见 請見 详见 詳見 参考 參考 参照 另见 另見 を",
    "まで 까지 も 를 을 참조 참고",
)
"""Labels before and after these are cited alike. None of them chooses, denies or limits (or, not, but)."""

RANGE = _words("to through thru until bis à до do až tot til till 至 到 から 부터")
"""Between two labels they mean what a dash means."""

SOURCE = _words(
    "source sources src srcs ref refs reference references citation citations quelle quellen fuente fuentes fonte",
    "fontes fonti bron bronnen källa källor kilde kilder lähde lähteet źródło źródła zdroj zdroje источник",
    "источники джерело джерела kaynak kaynaklar forrás források πηγή πηγές מקור מקורות مصدر مصادر المصدر المصادر",
    "منبع منابع स्रोत nguồn sumber แหล่งที่มา 来源 來源 出处 出處 资料 資料 出典 情報源 ソース 출처 자료",
)
"""A number right after one of these is a label: ``Source 1``."""

PLACE = _words(
    "p pp s page pages para paras paragraph paragraphs sec secs sect section sections ch chap chapter chapters l",
    "ll col column row rows vol volume item items step clause art article fn footnote note notes n no nos nr",
    "slide slides seite seiten abschnitt kapitel kap zeile zeilen absatz abs rn rz band pag pág pags págs pagg",
    "página páginas pagina pagine ligne lignes chapitre sección seção secção sezione capítulo capitolo línea",
    "linha riga blz bladzijde hoofdstuk regel sid sidan side sivu str strona rozdział strana kapitola с стр",
    "страница раздел глава стор sayfa bölüm oldal σελ σελίδα κεφ עמ עמוד ص صفحة صفحه फ पृ पृष्ठ trang hal halaman",
    "หน้า 第 页 頁 章 节 節 ページ 쪽",
)
"""A number right after one of these is a place in a source: ``p. 3``."""

THING = _words(
    "fig figs figure figures tab tabs table tables eq eqs equation equations scheme schemes appendix app annex",
    "supplement supplementary supp suppl movie video line lines linie linien s-bahn bahn route routes train",
    "trains bus zug züge abb abbildung abbildungen tabelle tabellen anhang anlage annexe tableau tableaux figura",
    "figuras tabla tablas tabela tabelas tabella anexo allegato figuur tabel bijlage figur tabell bilaga bilag",
    "kuva taulukko rys obr tabulka рис таблица табл рисунок şekil tablo ábra táblázat εικ πίνακας איור טבלה شكل",
    "جدول चित्र hình bảng gambar ภาพ ตาราง 图 圖 図 表 附录 附錄 그림 표",
)
"""A number right after one of these is its own, with an S as well: ``Fig. S1``, ``line S1``."""

SEVERAL = _words(
    "figs figures tabs tables eqs equations schemes lines linien routes trains züge abbildungen tabellen tableaux",
    "figuras tablas tabelas",
)
"""Of these, several numbers may follow: ``Figs. S1 and S2``."""
