from tests.models_chaos.owner import Owner


def test_x(arena, provider):
    it = arena(each=1)
    o = Owner.signed_in(it.gateway)
    print(o.add_provider(provider.url, "m1", "m2", key="hello-there", name="two"))
    print(o.model_ids())
    o.set_model("m1", input_price="3", output_price="4")
    o.set_chain("m1", "m2", "environment")
    print(o.add_budget(unit="money", period="month", amount="1.5", each_person=None))
    from tests.channels_app.client import query

    print(
        query(it.gateway, "select * from core_assistantmodel"),
        query(it.gateway, "select * from core_budget"),
        query(it.gateway, "select * from core_languagemodel"),
    )
    pages = o.crawl("/admin/")
    print(len(pages))
    print(sorted(pages)[:200])
