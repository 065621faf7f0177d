"""The page in a real headless browser: no errors, filters and keys that work, hostile text that does nothing."""

import random
import shutil

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select

import fake_results as fake
from claasbench.report import html, load, numbers

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("chromium") or not shutil.which("chromedriver"), reason="Chromium is not here"),
]
SPLITS = ["4x4", "5x5"]
HOSTILE = "</script><script>document.title='hacked'</script><img src=x onerror=\"document.title='hacked'\">"


def write(folder, each, lines):
    """Two methods with `each` episodes in each of three rows; the first of a row is hostile."""
    draw = random.Random(0)
    for method in ("icl", "sdpo"):
        rows = [[fake.ones(draw.randrange(5), 4), fake.ones(draw.randrange(5), 4)] for _ in range(3)]
        run = fake.write(folder / method / "o0-s0", SPLITS, rows, [fake.ones(1, 4)] * 2, fake.config(method))
        for row in ("init", "00-4x4", "01-5x5"):
            found = [({"task": HOSTILE, "score": 0.0, "end": HOSTILE}, [{"news": HOSTILE, "text": HOSTILE}])]
            for k in range(each - 1):
                end = {"attacks": [f"{('urgent', 'polite')[k % 2]}/bare/digits>"], "score": float(k % 3 == 0)}
                found.append(({"task": f"task-{k}", **end}, [{"news": f"see {k}\n" * lines, "text": f"act-{k}."}] * 4))
            fake.episodes(run, row, found)
    file = folder / "page.html"
    file.write_text(html.page(numbers.study(load.load([folder]))), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return write(tmp_path_factory.mktemp("page"), 21, 3)


@pytest.fixture
def browser(file):
    options = webdriver.ChromeOptions()
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1300,900"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    driver.get(file.as_uri())
    yield driver
    assert driver.get_log("browser") == []
    assert driver.title == "claasbench report"
    driver.quit()


def shown(browser):
    return [item for item in browser.find_elements(By.CSS_SELECTOR, "#list li") if item.is_displayed()]


def choose(browser, name, value):
    Select(browser.find_element(By.NAME, name)).select_by_visible_text(value)


def episode(browser):
    return browser.find_element(By.ID, "episode").text


def test_it_opens_without_errors_and_shows_all_there_is(browser):
    assert browser.find_element(By.ID, "count").text == "126 of 126 episodes."
    assert len(browser.find_elements(By.CSS_SELECTOR, "#list li")) == 126
    pictures = browser.find_elements(By.CSS_SELECTOR, ".drawn img")
    assert pictures
    assert all(browser.execute_script("return arguments[0].naturalWidth", picture) > 100 for picture in pictures)


def test_hostile_text_is_shown_and_does_nothing(browser):
    assert HOSTILE in episode(browser)
    choose(browser, "end", HOSTILE)
    assert browser.find_element(By.ID, "count").text == "6 of 126 episodes."
    assert browser.find_elements(By.CSS_SELECTOR, "#browser img, #browser script") == []


def test_the_policy_stops_a_script_that_got_in(browser):
    browser.execute_script("""
        const node = document.createElement("script");
        node.textContent = "document.title = 'hacked'";
        document.body.append(node);
    """)
    assert browser.title == "claasbench report"
    (refused,) = browser.get_log("browser")  # and so the log is empty again
    assert "Content Security Policy" in refused["message"]


def test_filters_narrow_together_and_open_again(browser):
    choose(browser, "method", "sdpo")
    choose(browser, "row", "00-4x4")
    assert browser.find_element(By.ID, "count").text == "21 of 126 episodes."
    choose(browser, "outcome", "won")
    assert browser.find_element(By.ID, "count").text == "7 of 126 episodes."
    assert "won sdpo" in episode(browser)
    choose(browser, "strategies", "polite")
    assert browser.find_element(By.ID, "count").text == "3 of 126 episodes."
    for name in ("method", "row", "outcome", "strategies"):
        choose(browser, name, "all")
    assert browser.find_element(By.ID, "count").text == "126 of 126 episodes."


def test_the_search_looks_through_all_texts(browser):
    search = browser.find_element(By.NAME, "text")
    search.send_keys("ACT-13.")
    assert browser.find_element(By.ID, "count").text == "6 of 126 episodes."
    assert "act-13." in episode(browser)
    search.send_keys("nowhere")
    assert browser.find_element(By.ID, "count").text == "0 of 126 episodes."
    assert "No episode" in episode(browser)


def test_keys_move_through_the_list_and_reach_the_search(browser):
    body = browser.find_element(By.TAG_NAME, "body")
    body.send_keys("j")
    body.send_keys("j")
    assert "task task-1" in episode(browser)
    browser.find_element(By.ID, "list").send_keys(Keys.ARROW_UP)
    assert "task task-0" in episode(browser)
    browser.find_element(By.ID, "list").send_keys(Keys.END)
    assert "sdpo, task task-19" in episode(browser)
    selected = browser.find_element(By.CSS_SELECTOR, "#list li[aria-selected='true']")
    assert browser.find_element(By.ID, "list").get_attribute("aria-activedescendant") == selected.get_attribute("id")
    body.send_keys("/")
    assert browser.switch_to.active_element.get_attribute("name") == "text"
    browser.switch_to.active_element.send_keys("jk/")
    assert browser.find_element(By.NAME, "text").get_attribute("value") == "jk/"


def test_dark_and_light_can_be_read(browser):
    def contrast():
        return browser.execute_script("""
            const linear = (value) => value <= .04045 ? value / 12.92 : ((value + .055) / 1.055) ** 2.4;
            const light = (text) => {
              const [r, g, b] = text.match(/\\d+/g).map((value) => linear(value / 255));
              return .2126 * r + .7152 * g + .0722 * b; };
            const of = (node, name) => light(getComputedStyle(node)[name]);
            const paper = of(document.body, "backgroundColor");
            return ["body", "figcaption", "header p", "#episode b"].map((query) => {
              const ink = of(document.querySelector(query), "color");
              return (Math.max(ink, paper) + .05) / (Math.min(ink, paper) + .05); });
        """)

    before = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert min(contrast()) >= 4.5
    browser.find_element(By.ID, "theme").click()
    assert browser.execute_script("return getComputedStyle(document.body).backgroundColor") != before
    assert min(contrast()) >= 4.5


def test_a_phone_needs_no_sideways_scrolling(browser, file):
    phone = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    browser.get(file.as_uri())
    assert browser.execute_script("return document.documentElement.scrollWidth") == 390


def test_print_leaves_the_controls_out(browser):
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert not browser.find_element(By.ID, "filters").is_displayed()
    assert browser.find_element(By.CSS_SELECTOR, ".table").is_displayed()


def test_a_full_page_is_small(tmp_path, browser):
    full = write(tmp_path, 700, 60)
    assert full.stat().st_size < 15_000_000
    browser.get(full.as_uri())
    assert len(browser.find_elements(By.CSS_SELECTOR, "#list li")) > 500
